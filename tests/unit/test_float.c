/* Scalar formats: every code of every format against its definition, m * 2^e in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/rng.h"
#include "quant/nvfp4.h"

/* Value of a code with n_exp exponent and n_man mantissa bits below the sign; no inf, no NaN. */
static double defined(uint32_t code, int n_exp, int n_man)
{
    int bias = (1 << (n_exp - 1)) - 1;
    int e = (int)(code >> n_man & ((1u << n_exp) - 1));
    uint32_t m = code & ((1u << n_man) - 1);
    double v = e ? ldexp((double)(m + (1u << n_man)), e - bias - n_man)
                 : ldexp((double)m, 1 - bias - n_man);
    return code >> (n_exp + n_man) & 1 ? -v : v;
}

/* Equal also in the sign of zero. */
static void same(double got, double want, const char *format, uint32_t code)
{
    if (got != want || signbit(got) != signbit(want))
        fail_msg("%s code 0x%x: got %.9g, want %.9g", format, code, got, want);
}

static void test_bf16_decode(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 65536; c++) {
        float f = hg_bf16_to_f32((uint16_t)c);
        if ((c & 0x7fff) > 0x7f80)
            assert_true(isnan(f));
        else if ((c & 0x7fff) == 0x7f80)
            same((double)f, c & 0x8000 ? -INFINITY : INFINITY, "bf16", c);
        else
            same((double)f, defined(c, 8, 7), "bf16", c);
    }
}

static void test_bf16_encode(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 65536; c++) {
        uint16_t back = hg_f32_to_bf16(hg_bf16_to_f32((uint16_t)c));
        if ((c & 0x7fff) > 0x7f80) /* NaN keeps sign and payload, and becomes quiet */
            assert_int_equal(back, c | 0x40);
        else
            assert_int_equal(back, c);
        if ((c & 0x7fff) >= 0x7f80) continue;
        uint32_t u = c << 16;
        assert_int_equal(hg_f32_to_bf16(hg_f32_bits(u | 0x7fff)), c);
        assert_int_equal(hg_f32_to_bf16(hg_f32_bits(u | 0x8000)), c + (c & 1)); /* tie to even */
        assert_int_equal(hg_f32_to_bf16(hg_f32_bits(u | 0x8001)), c + 1);
    }
    assert_int_equal(hg_f32_to_bf16(3.4e38f), 0x7f80); /* beyond the largest: infinity */
    for (uint32_t low = 1; low < 65536; low++) {       /* a NaN whose payload is cut off */
        assert_true(isnan(hg_bf16_to_f32(hg_f32_to_bf16(hg_f32_bits(0x7f800000u | low)))));
        assert_true(isnan(hg_bf16_to_f32(hg_f32_to_bf16(hg_f32_bits(0xff800000u | low)))));
    }
}

static void test_f16_decode(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 65536; c++) {
        float f = hg_f16_to_f32((uint16_t)c);
        if ((c & 0x7fff) > 0x7c00)
            assert_true(isnan(f));
        else if ((c & 0x7fff) == 0x7c00)
            same((double)f, c & 0x8000 ? -INFINITY : INFINITY, "f16", c);
        else
            same((double)f, defined(c, 5, 10), "f16", c);
#ifdef __FLT16_MAX__ /* the compiler's own type as a second opinion */
        _Float16 h;
        uint16_t code = (uint16_t)c;
        memcpy(&h, &code, 2);
        if (!isnan(f)) same((double)f, (double)(float)h, "_Float16", c);
#endif
    }
}

static void test_e4m3_decode(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 256; c++) {
        float f = hg_e4m3_to_f32((uint8_t)c);
        if ((c & 0x7f) == 0x7f)
            assert_true(isnan(f));
        else
            same((double)f, defined(c, 4, 3), "e4m3", c);
    }
    assert_true(hg_e4m3_to_f32(0x7e) == 448.0f);
    assert_true(hg_e4m3_to_f32(0x01) == 0x1p-9f);
}

static void encodes_e4m3(float f, uint32_t want)
{
    if (hg_f32_to_e4m3(f) != want)
        fail_msg("e4m3 of %.9g (%a): got 0x%02x, want 0x%02x", (double)f, (double)f,
                 hg_f32_to_e4m3(f), want);
}

/* Each code, the midpoint to the next one, and the floats around the midpoint; both signs. */
static void test_e4m3_encode(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x7e; c++) {
        float f = hg_e4m3_to_f32((uint8_t)c);
        encodes_e4m3(f, c);
        encodes_e4m3(-f, c | 0x80);
        if (c == 0x7e) break;
        float mid = (f + hg_e4m3_to_f32((uint8_t)(c + 1))) / 2; /* exact: one bit more */
        float below = nextafterf(mid, 0), above = nextafterf(mid, 1000);
        uint32_t even = c + (c & 1);
        encodes_e4m3(mid, even);
        encodes_e4m3(-mid, even | 0x80);
        encodes_e4m3(below, c);
        encodes_e4m3(-below, c | 0x80);
        encodes_e4m3(above, c + 1);
        encodes_e4m3(-above, (c + 1) | 0x80);
    }
}

static void test_e4m3_edges(void **state)
{
    (void)state;
    static const float large[] = {448, 448.1f, 463.9f, 464, 464.1f, 480, 1e9f, 3.4e38f, INFINITY};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        encodes_e4m3(large[i], 0x7e);
        encodes_e4m3(-large[i], 0xfe);
    }
    encodes_e4m3(nextafterf(448, 0), 0x7e);
    encodes_e4m3(NAN, 0x7f);
    encodes_e4m3(-NAN, 0x7f);
    encodes_e4m3(0.0f, 0x00);
    encodes_e4m3(-0.0f, 0x80);
    encodes_e4m3(1e-45f, 0x00); /* the smallest float */
    encodes_e4m3(-1e-45f, 0x80);
    encodes_e4m3(0x1p-10f, 0x00); /* half of the smallest code: tie to even */
    encodes_e4m3(nextafterf(0x1p-10f, 1), 0x01);
    encodes_e4m3(nextafterf(0x1p-6f, 0), 0x08); /* subnormal that rounds up to the first normal */
}

/* The nearest code by search, for random floats over the whole range. */
static void test_e4m3_random(void **state)
{
    (void)state;
    uint64_t seed = 7;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct hg_rng rng = {seed};
    for (int i = 0; i < 100000; i++) {
        double v = ldexp(0.5 + hg_rng_f64(&rng) / 2, -12 + (int)hg_rng_below(&rng, 22));
        float f = (float)v;
        uint32_t best = 0;
        for (uint32_t c = 1; c <= 0x7e; c++) {
            double d = fabs(defined(c, 4, 3) - (double)f);
            double d_best = fabs(defined(best, 4, 3) - (double)f);
            if (d < d_best || (d == d_best && c % 2 == 0)) best = c;
        }
        encodes_e4m3(f, best);
    }
}

static void test_e2m1_and_nvfp4(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 16; c++)
        same((double)hg_e2m1_to_f32((uint8_t)c), defined(c, 2, 1), "e2m1", c);

    uint8_t row[16], scale[2] = {0x38, 0xc8}; /* 1 and -4 */
    for (int i = 0; i < 16; i++) row[i] = (uint8_t)((2 * i + 1) % 16 << 4 | 2 * i % 16);
    for (int64_t k = 0; k < 32; k++)
        same((double)hg_nvfp4_at(row, scale, k),
             defined((uint32_t)k % 16, 2, 1) * (k < 16 ? 1 : -4), "nvfp4", (uint32_t)k);

    /* The header's claim: e2m1 * e4m3 is exact in fp32, fp16 (unless it underflows) and bf16. */
    for (uint32_t s = 0; s < 256; s++) {
        if ((s & 0x7f) == 0x7f) continue;
        for (uint32_t c = 0; c < 16; c++) {
            float f = hg_e2m1_to_f32((uint8_t)c) * hg_e4m3_to_f32((uint8_t)s);
            same((double)f, defined(c, 2, 1) * defined(s, 4, 3), "product", s << 4 | c);
            same((double)hg_bf16_to_f32(hg_f32_to_bf16(f)), (double)f, "bf16 product", s << 4 | c);
#ifdef __FLT16_MAX__
            same((double)(float)(_Float16)f, (double)f, "f16 product", s << 4 | c);
#endif
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16_decode), cmocka_unit_test(test_bf16_encode),
        cmocka_unit_test(test_f16_decode),  cmocka_unit_test(test_e4m3_decode),
        cmocka_unit_test(test_e4m3_encode), cmocka_unit_test(test_e4m3_edges),
        cmocka_unit_test(test_e4m3_random), cmocka_unit_test(test_e2m1_and_nvfp4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
