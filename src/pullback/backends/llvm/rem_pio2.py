"""Reduction of huge arguments modulo pi/2, after Payne and Hanek, in integers: native code called
through the table.

x = m * 2**e with a 53-bit m. Of 2/pi only the 192 bits from weight 2**(2-e) down matter: what
stands before them contributes multiples of 4 quarter turns, what stands after is below 2**-137 of
one. m times that window, modulo 2**192, is the turn: two bits of quadrant and 190 of fraction,
which is normalised, multiplied by pi/2 in 128 bits and split in two doubles.
"""

from __future__ import annotations

__all__ = ["REM_PIO2"]

# 64 zero bits, then the first 1216 bits of 2/pi.
_TWO_OVER_PI = (
    "0000000000000000 a2f9836e4e441529 fc2757d1f534ddc0 db6295993c439041 fe5163abdebbc561 "
    "b7246e3a424dd2e0 06492eea09d1921c fe1deb1cb129a73e e88235f52ebb4484 e99c7026b45f7e41 "
    "3991d639835339f4 9c845f8bbdf9283b 1ff897ffde05980f ef2f118b5a0a6d1f 6d367ecf27cb09b7 "
    "4f463f669e5fea2d 7527bac7ebe5f17b 3d0739f78a5292ea 6bfb5fb11f8d5d08 56033046fc7b6bab"
).split()

_TABLE = ", ".join(f"i64 {int(w, 16)}" for w in _TWO_OVER_PI)
_PI_HIGH, _PI_LOW = 0xC90FDAA22168C234, 0xC4C6628B80DC1CD1  # pi/2 = (high + low * 2**-64) * 2**-63

REM_PIO2 = f"""
@two_over_pi = internal constant [20 x i64] [{_TABLE}], align 8
declare i64 @llvm.fshl.i64(i64, i64, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
define i64 @pb_rem_pio2(double %x, ptr %out) nounwind {{
entry:
 %bits = bitcast double %x to i64
 %neg = icmp slt i64 %bits, 0
 %e0 = lshr i64 %bits, 52
 %e1 = and i64 %e0, 2047
 %m0 = and i64 %bits, 4503599627370495
 %m = or i64 %m0, 4503599627370496
 %s = sub i64 %e1, 1013
 %i = ashr i64 %s, 6
 %sh = and i64 %s, 63
 %p0 = getelementptr i64, ptr @two_over_pi, i64 %i
 %p1 = getelementptr i64, ptr %p0, i64 1
 %p2 = getelementptr i64, ptr %p0, i64 2
 %p3 = getelementptr i64, ptr %p0, i64 3
 %t0 = load i64, ptr %p0
 %t1 = load i64, ptr %p1
 %t2 = load i64, ptr %p2
 %t3 = load i64, ptr %p3
 %w0 = call i64 @llvm.fshl.i64(i64 %t0, i64 %t1, i64 %sh)
 %w1 = call i64 @llvm.fshl.i64(i64 %t1, i64 %t2, i64 %sh)
 %w2 = call i64 @llvm.fshl.i64(i64 %t2, i64 %t3, i64 %sh)
 %mw = zext i64 %m to i128
 %x1 = zext i64 %w1 to i128
 %x2 = zext i64 %w2 to i128
 %lo = mul i128 %mw, %x2
 %lo_h = lshr i128 %lo, 64
 %mid0 = mul i128 %mw, %x1
 %mid = add i128 %mid0, %lo_h
 %mid_h = lshr i128 %mid, 64
 %carry = trunc i128 %mid_h to i64
 %top0 = mul i64 %m, %w0
 %t = add i64 %top0, %carry
 %u = trunc i128 %mid to i64
 %v = trunc i128 %lo to i64
 %q0 = lshr i64 %t, 62
 %f0 = call i64 @llvm.fshl.i64(i64 %t, i64 %u, i64 2)
 %f1 = call i64 @llvm.fshl.i64(i64 %u, i64 %v, i64 2)
 %f2 = shl i64 %v, 2
 %over = icmp slt i64 %f0, 0
 %one = zext i1 %over to i64
 %q = add i64 %q0, %one
 %flip = sext i1 %over to i64
 %g0 = xor i64 %f0, %flip
 %g1 = xor i64 %f1, %flip
 %g2 = xor i64 %f2, %flip
 %lz0 = call i64 @llvm.ctlz.i64(i64 %g0, i1 false)
 %lz = call i64 @llvm.umin.i64(i64 %lz0, i64 63)
 %h0 = call i64 @llvm.fshl.i64(i64 %g0, i64 %g1, i64 %lz)
 %h1 = call i64 @llvm.fshl.i64(i64 %g1, i64 %g2, i64 %lz)
 %a0 = zext i64 %h0 to i128
 %a1 = zext i64 %h1 to i128
 %r0 = mul i128 %a0, {_PI_HIGH}
 %r1 = mul i128 %a1, {_PI_HIGH}
 %r2 = mul i128 %a0, {_PI_LOW}
 %r3 = lshr i128 %r1, 64
 %r4 = lshr i128 %r2, 64
 %r5 = add i128 %r0, %r3
 %r = add i128 %r5, %r4
 %rh0 = lshr i128 %r, 64
 %rh = trunc i128 %rh0 to i64
 %rl = trunc i128 %r to i64
 %big = and i64 %rh, -2048
 %rest = and i64 %rh, 2047
 %rest1 = shl i64 %rest, 53
 %rest2 = lshr i64 %rl, 11
 %small = or i64 %rest1, %rest2
 %hd = uitofp i64 %big to double
 %ld0 = uitofp i64 %small to double
 %ld = fmul double %ld0, 0x3CA0000000000000
 %ex = sub i64 960, %lz
 %exb = shl i64 %ex, 52
 %scale0 = bitcast i64 %exb to double
 %odd = xor i1 %over, %neg
 %nscale = fneg double %scale0
 %scale = select i1 %odd, double %nscale, double %scale0
 %hi = fmul double %hd, %scale
 %low = fmul double %ld, %scale
 store double %hi, ptr %out
 %out1 = getelementptr double, ptr %out, i64 1
 store double %low, ptr %out1
 %nq = sub i64 0, %q
 %res = select i1 %neg, i64 %nq, i64 %q
 ret i64 %res
}}
"""
