"""Rotations in three dimensions, and their interpolation."""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes, lax, numpy as jnp, random
from ...core.avals import typeof
from ...numpy.util import promotes_freely

__all__ = ["Rotation", "Slerp"]

_X, _Y, _Z, _W = 0, 1, 2, 3


def _size(v: Any) -> Any:
    """The length of vectors along the last axis, which stays; of complex ones its continuation,
    the root of the sum of squares."""
    if dtypes.is_complex(typeof(v).dtype):
        return jnp.sqrt(jnp.sum(v * v, axis=-1, keepdims=True))
    return jnp.linalg.norm(v, axis=-1, keepdims=True)


def _normalise(q: Any) -> Any:
    return q / _size(q)


def _compose(p: Any, q: Any) -> Any:
    """The product of quaternions (x, y, z, w): first q, then p."""
    pv, pw, qv, qw = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    vector = pw * qv + qw * pv + jnp.cross(pv, qv)
    scalar = pw * qw - jnp.sum(pv * qv, axis=-1, keepdims=True)
    return jnp.concatenate([vector, scalar], axis=-1)


def _float(x: Any) -> Any:
    x = jnp.asarray(x)
    return x if dtypes.is_inexact(typeof(x).dtype) else x.astype(dtypes.default_float())


class Rotation(NamedTuple):
    """Rotations, as unit quaternions (x, y, z, w): one (4,) or several (n, 4).

    >>> quarter = pb.scipy.spatial.transform.Rotation.from_euler("z", 90, degrees=True)
    >>> quarter.apply(jnp.array([1., 0., 0.])).round(3)
    Array([0., 1., 0.], dtype=float32)
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations: Any) -> Rotation:
        """Several rotations as one object."""
        return cls(jnp.concatenate([jnp.atleast_2d(r.quat) for r in rotations]))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """From quaternions (x, y, z, w), normalised."""
        return cls(_normalise(_float(quat)))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """From rotation matrices (..., 3, 3); ValueError for another shape."""
        m = _float(matrix)
        if typeof(m).shape[-2:] != (3, 3):
            raise ValueError(f"Expected rotation matrices (..., 3, 3), got shape {typeof(m).shape}")
        diagonal = jnp.diagonal(m, axis1=-2, axis2=-1)
        trace = jnp.sum(diagonal, axis=-1)
        choice = jnp.argmax(jnp.concatenate([diagonal, trace[..., None]], axis=-1), axis=-1)

        def by(i: int) -> Any:
            # The component whose square is largest is taken from the diagonal; the others follow
            # from sums and differences.
            j, k = (i + 1) % 3, (i + 2) % 3
            parts: list[Any] = [None] * 4
            parts[i] = 1 - trace + 2 * m[..., i, i]
            parts[j] = m[..., j, i] + m[..., i, j]
            parts[k] = m[..., k, i] + m[..., i, k]
            parts[3] = m[..., k, j] - m[..., j, k]
            return jnp.stack(parts, axis=-1)

        last = jnp.stack(
            [
                m[..., 2, 1] - m[..., 1, 2],
                m[..., 0, 2] - m[..., 2, 0],
                m[..., 1, 0] - m[..., 0, 1],
                1 + trace,
            ],
            axis=-1,
        )
        q = last
        for i in range(3):
            q = jnp.where((choice == i)[..., None], by(i), q)
        return cls(_normalise(q))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """From rotation vectors: the axis, as long as the angle."""
        v = _float(rotvec)
        v = jnp.deg2rad(v) if degrees else v
        angle = _size(v)
        small = abs(angle) <= 1e-3
        square = angle * angle
        near = 0.5 - square / 48 + square * square / 3840
        scale = jnp.where(small, near, jnp.sin(angle / 2) / jnp.where(small, 1, angle))
        return cls(_normalise(jnp.concatenate([scale * v, jnp.cos(angle / 2)], axis=-1)))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """From modified Rodrigues parameters: the axis, as long as the tangent of a quarter of the
        angle.
        """
        v = _float(mrp)
        square = jnp.sum(v * v, axis=-1, keepdims=True) + 1
        return cls(jnp.concatenate([2 * v / square, (2 - square) / square], axis=-1))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """From angles about a sequence of axes: lower case for fixed axes, upper case for moving
        ones.

        Raises ValueError for another sequence.
        """
        if not re.match(r"^([XYZ]{1,3}|[xyz]{1,3})$", seq):
            raise ValueError(
                f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}"
            )
        if any(a == b for a, b in itertools.pairwise(seq)):
            raise ValueError(f"Expected consecutive axes to be different, got {seq}")
        a = _float(angles)
        a = jnp.asarray(jnp.deg2rad(a) if degrees else a, dtype=typeof(a).dtype)  # not weak
        a = a[..., None] if len(seq) == 1 and typeof(a).ndim <= 1 and typeof(a).shape != (1,) else a
        if typeof(a).shape[-1:] != (len(seq),):
            raise ValueError(
                f"Expected angles to have {len(seq)} columns, got shape {typeof(a).shape}"
            )
        single = []
        for k, axis in enumerate(seq.lower()):
            half = a[..., k] / 2
            parts = [jnp.zeros_like(half)] * 3 + [jnp.cos(half)]
            parts["xyz".index(axis)] = jnp.sin(half)
            single.append(jnp.stack(parts, axis=-1))
        if seq.isupper():
            return cls(functools.reduce(_compose, single))
        return cls(functools.reduce(lambda p, q: _compose(q, p), single))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """No rotation, or `num` of them."""
        kind = dtypes.canonicalize_dtype(dtype)
        one = jnp.array([0.0, 0.0, 0.0, 1.0], dtype=kind)
        return cls(one if num is None else jnp.tile(one, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """Uniformly distributed rotations."""
        return cls(_normalise(random.normal(random_key, (4,) if num is None else (num, 4))))

    def __getitem__(self, indexer: Any) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return int(typeof(self.quat).shape[0])

    def __mul__(self, other: Any) -> Rotation:
        return Rotation(_normalise(_compose(*jnp.broadcast_arrays(self.quat, other.quat))))

    @property
    def single(self) -> bool:
        """Is this one rotation, not a stack?"""
        return typeof(self.quat).ndim == 1  # type: ignore[no-any-return]

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """The vectors (..., 3), rotated."""
        matrix = self.as_matrix()
        if inverse:
            matrix = jnp.swapaxes(matrix, -1, -2)
        return jnp.einsum(
            "...ij,...j->...i", matrix, _float(vectors), precision=lax.Precision.HIGHEST
        )

    def inv(self) -> Rotation:
        """The inverse rotations."""
        turned = jnp.concatenate([-self.quat[..., :3], self.quat[..., 3:]], axis=-1)
        return Rotation(turned)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Any:
        """The quaternions (x, y, z, w); `canonical`: with w not negative; `scalar_first`: (w, x, y,
        z).
        """
        q = self.quat
        if canonical:
            # The first of w, x, y, z that is not 0 is made positive.
            order = jnp.stack([q[..., 3], q[..., 0], q[..., 1], q[..., 2]], axis=-1)
            first = jnp.argmax(order != 0, axis=-1)
            q = jnp.where(jnp.take_along_axis(order, first[..., None], axis=-1) < 0, -q, q)
        return jnp.roll(q, 1, axis=-1) if scalar_first else q

    def as_matrix(self) -> Any:
        """The rotation matrices (..., 3, 3)."""
        x, y, z, w = (self.quat[..., k] for k in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """The rotation vectors: the axis, as long as the angle."""
        q = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        angle = 2 * jnp.arctan2(_size(q[..., :3]), q[..., 3:])
        small = angle <= 1e-3
        square = angle * angle
        near = 2 + square / 12 + 7 * square * square / 2880
        scale = jnp.where(small, near, angle / jnp.where(small, 1, jnp.sin(angle / 2)))
        out = scale * q[..., :3]
        return jnp.rad2deg(out) if degrees else out

    def as_mrp(self) -> Any:
        """The modified Rodrigues parameters."""
        q = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """The angles about a sequence of three axes, as for `from_euler`.

        Raises ValueError for another sequence.
        """
        if not re.match(r"^([XYZ]{3}|[xyz]{3})$", seq) or seq[0] == seq[1] or seq[1] == seq[2]:
            raise ValueError(
                f"Expected `seq` to name 3 axes, consecutive ones different, got {seq}"
            )
        extrinsic = seq.islower()
        i, j, k = ("xyz".index(c) for c in (seq.lower() if extrinsic else seq.lower()[::-1]))
        proper = i == k
        k = 3 - i - j if proper else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = self.quat
        if proper:
            a, b, c, d = q[..., 3], q[..., i], q[..., j], q[..., k] * sign
        else:
            a, b = q[..., 3] - q[..., j], q[..., i] + q[..., k] * sign
            c, d = q[..., j] + q[..., 3], q[..., k] * sign - q[..., i]
        middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
        half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
        at_zero, at_pi = jnp.abs(middle) <= 1e-7, jnp.abs(middle - np.pi) <= 1e-7
        degenerate = at_zero | at_pi
        first = jnp.where(
            degenerate,
            jnp.where(
                at_zero, 2 * half_sum, -2 * half_difference if extrinsic else 2 * half_difference
            ),
            half_sum - half_difference,
        )
        last = jnp.where(degenerate, 0, half_sum + half_difference)
        if not proper:
            last, middle = last * sign, middle - np.pi / 2
        angles = [first, middle, last] if extrinsic else [last, middle, first]
        angles[1] = middle
        if not extrinsic:
            angles = [jnp.where(degenerate, first, last), middle, jnp.where(degenerate, 0, first)]
        out = jnp.stack(angles, axis=-1)
        out = jnp.where(out < -np.pi, out + 2 * np.pi, jnp.where(out > np.pi, out - 2 * np.pi, out))
        return jnp.rad2deg(out) if degrees else out

    def magnitude(self) -> Any:
        """The angles of rotation, from 0 to pi."""
        return 2 * jnp.arctan2(_size(self.quat[..., :3])[..., 0], jnp.abs(self.quat[..., 3]))

    def mean(self, weights: Any = None) -> Rotation:
        """The rotation nearest to all, on (weighted) average."""
        q = jnp.atleast_2d(self.quat)
        w = (
            jnp.ones(typeof(q).shape[0], typeof(q).dtype)
            if weights is None
            else jnp.asarray(weights, typeof(q).dtype)
        )
        if typeof(w).ndim != 1 or typeof(w).shape[0] != typeof(q).shape[0]:
            raise ValueError(
                f"Expected weights to have one element per rotation, got shape {typeof(w).shape}"
            )
        matrix = jnp.einsum("n,ni,nj->ij", w, q, q, precision=lax.Precision.HIGHEST)
        return Rotation(jnp.linalg.eigh(matrix)[1][:, -1])


class Slerp(NamedTuple):
    """Interpolation of rotations at constant angular velocity between key times.

    Made by `Slerp.init(times, rotations)`; called with times. As `scipy.spatial.transform.Slerp`.

    >>> from pullback.scipy.spatial.transform import Rotation, Slerp
    >>> turns = Rotation.from_rotvec(jnp.array([[0., 0., 0.], [0., 0., 1.]]))
    >>> Slerp.init(jnp.array([0., 1.]), turns)(jnp.array([0.5])).as_rotvec().round(3)
    Array([[0. , 0. , 0.5]], dtype=float32)
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    @promotes_freely
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """From increasing times (n,) and as many rotations.

        Raises ValueError for a single rotation or times that do not fit, TypeError for what is no
        Rotation.
        """
        if not isinstance(rotations, Rotation):
            raise TypeError(
                f"`rotations` must be a `Rotation` instance, got {type(rotations).__name__}."
            )
        if rotations.single or len(rotations) == 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        t = _float(times)
        if typeof(t).ndim != 1:
            raise ValueError(
                f"Expected times to be specified in a 1 dimensional array, got {typeof(t).ndim} "
                "dimensions."
            )
        if typeof(t).shape[0] != len(rotations):
            raise ValueError(
                "Expected number of rotations to be equal to number of timestamps given, got "
                f"{len(rotations)} rotations and {typeof(t).shape[0]} timestamps."
            )
        start = Rotation(rotations.quat[:-1])
        change = start.inv() * Rotation(rotations.quat[1:])
        return cls(t, jnp.diff(t), start, change.as_rotvec())

    @promotes_freely
    def __call__(self, times: Any) -> Rotation:
        """The rotations at these times. After the last one, the turn from the last key time but one
        begins again, as in JAX.
        """
        t = _float(times)
        if typeof(t).ndim > 1:
            raise ValueError("`times` must be at most 1-dimensional.")
        single = typeof(t).ndim == 0
        t = jnp.atleast_1d(t)
        # The index counts key times; there is one interval less, where it is clipped.
        k = jnp.maximum(jnp.searchsorted(self.times, t) - 1, 0)
        fraction = ((t - self.times[k]) / self.timedelta[k]).astype(typeof(self.rotvecs).dtype)
        out = Rotation(self.rotations.quat[k]) * Rotation.from_rotvec(
            self.rotvecs[k] * fraction[:, None]
        )
        return Rotation(out.quat[0]) if single else out
