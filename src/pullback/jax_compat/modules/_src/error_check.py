"""`jax._src.error_check`: errors that programs note while they run, and that are raised when they
are asked for."""

from __future__ import annotations

import json

from ....api.export_trees import register_pytree_node_serialization
from ....numpy.error_check import (
    NO_ERROR as _NO_ERROR,  # noqa: F401
    UNKNOWN as _INVALID_ERROR_CODE_MSG,  # noqa: F401
    UNKNOWN_TRACEBACK as _INVALID_ERROR_CODE_TRACEBACK,  # noqa: F401
    Carried as _ErrorClass,
    JaxValueError as JaxValueError,
    Noted as _ErrorStorage,  # noqa: F401
    error_checking_context as error_checking_context,
    errors as _error_list,  # noqa: F401
    lock as _error_list_lock,  # noqa: F401
    noted as _error_storage,  # noqa: F401
    raise_if_error as raise_if_error,
    set_error_if as set_error_if,
    unwrap_from_import as unwrap_from_import,
    wrap_for_export as wrap_for_export,
)

register_pytree_node_serialization(
    _ErrorClass,
    serialized_name=f"{_ErrorClass.__module__}.{_ErrorClass.__name__}",
    serialize_auxdata=lambda aux: json.dumps(aux).encode(),
    deserialize_auxdata=lambda data: tuple(map(tuple, json.loads(data))),
)
