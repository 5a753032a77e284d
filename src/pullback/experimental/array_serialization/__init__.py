"""Arrays in files, through the tensorstore library (`pip install tensorstore`): what checkpoint
libraries are built on.
"""

from __future__ import annotations
