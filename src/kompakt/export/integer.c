/* -- From here on the text is the same for every machine; what differs is defined above. ------------------------- */

#if defined(__GNUC__) /* functions in one piece each are smaller, and AVR has few registers */
#define MACHINE_APART __attribute__((noinline))
#else
#define MACHINE_APART
#endif

/* The sum of n products, which fits into MACHINE_ACCUMULATOR bits. */
static MACHINE_APART int32_t machine_dot(const int16_t *u, const int8_t *z, MACHINE_COUNT n)
{
#if defined(__AVR_HAVE_MUL__) && defined(__AVR_HAVE_LPMX__)
    register int32_t total __asm__("r22") = 0; /* where it is returned */
    int8_t a, b, sign;
#if MACHINE_ACCUMULATOR == 24
#define MACHINE_TERM                                                                                  \
    "lpm %[b], Z+\n\t" "ld %[a], X+\n\t" "mulsu %[b], %[a]\n\t" "sbc %[sign], %[sign]\n\t"            \
    "add %A[s], r0\n\t" "adc %B[s], r1\n\t" "adc %C[s], %[sign]\n\t" "ld %[a], X+\n\t"                 \
    "muls %[b], %[a]\n\t" "add %B[s], r0\n\t" "adc %C[s], r1\n\t"
#define MACHINE_END "sbrc %C[s], 7\n\t" "com %D[s]\n\t"
#else
#define MACHINE_TERM                                                                                  \
    "lpm %[b], Z+\n\t" "ld %[a], X+\n\t" "mulsu %[b], %[a]\n\t" "sbc %[sign], %[sign]\n\t"            \
    "add %A[s], r0\n\t" "adc %B[s], r1\n\t" "adc %C[s], %[sign]\n\t" "adc %D[s], %[sign]\n\t"          \
    "ld %[a], X+\n\t" "muls %[b], %[a]\n\t" "sbc %[sign], %[sign]\n\t"                               \
    "add %B[s], r0\n\t" "adc %C[s], r1\n\t" "adc %D[s], %[sign]\n\t"
#define MACHINE_END ""
#endif
    __asm__(MACHINE_HALVE /* an odd number of terms begins with the second one of two */
            "1:\t" MACHINE_TERM
            "2:\t" MACHINE_TERM
            MACHINE_NEXT
            "brne 1b\n\t" MACHINE_END
            "clr __zero_reg__"
            : [s] "+r"(total), [a] "=&a"(a), [b] "=&a"(b), [sign] "=&r"(sign), "+x"(u), "+z"(z), [n] "+d"(n)
            :
            : "memory");
    return total;
#else
    int32_t sum = 0;
    for (; n; n--) sum += (int32_t)*u++ * (int8_t)MACHINE_BYTE(z++);
    return sum;
#endif
}

/* 2^(MACHINE_KERNEL_BITS - the octaves of p), rounded; MACHINE_NORM_START made p as large as that needs. */
static MACHINE_APART int16_t machine_power(int32_t p)
{
    static const uint16_t powers[33] MACHINE_FLASH = {
        32768, 32066, 31379, 30706, 30048, 29405, 28774, 28158, 27554, 26964, 26386, 25821, 25268, 24726, 24196, 23678,
        23170, 22674, 22188, 21713, 21247, 20792, 20347, 19911, 19484, 19066, 18658, 18258, 17867, 17484, 17109, 16743,
        16384
    };
    const uint16_t *entry = powers;
    uint16_t fraction, value;
    uint8_t octaves;
    if (p >= (int32_t)16 << MACHINE_OCTAVE) return 0;
    if (p < 0) p = 0;
#if MACHINE_OCTAVE > 16
    p >>= MACHINE_OCTAVE - 16;
#else
    p <<= 16 - MACHINE_OCTAVE;
#endif
    octaves = (uint8_t)(p >> 16);
    fraction = (uint16_t)p; /* five bits choose an entry, eight interpolate to the next */
#if defined(__AVR_HAVE_MUL__) && defined(__AVR_HAVE_LPMX__)
    {
        uint16_t step;
        __asm__("lsr %B[f]\n\t" "ror %A[f]\n\t" "lsr %B[f]\n\t" "ror %A[f]\n\t" "lsr %B[f]\n\t" "ror %A[f]\n\t"
                "lsl %B[f]\n\t" "add r30, %B[f]\n\t" "adc r31, __zero_reg__\n\t"
                "lpm %A[v], Z+\n\t" "lpm %B[v], Z+\n\t" "lpm r0, Z+\n\t" "movw %A[s], %A[v]\n\t" "sub %A[s], r0\n\t"
                "lpm r0, Z\n\t" "sbc %B[s], r0\n\t"
                "mul %B[s], %A[f]\n\t" "sub %A[v], r0\n\t" "sbc %B[v], r1\n\t"
                "mul %A[s], %A[f]\n\t" "sub %A[v], r1\n\t" "clr __zero_reg__\n\t" "sbc %B[v], __zero_reg__\n\t"
                "rjmp 2f\n"
                "1:\t" "lsr %B[v]\n\t" "ror %A[v]\n"
                "2:\t" "dec %[octaves]\n\t" "brpl 1b"
                : [v] "=&r"(value), [s] "=&r"(step), [f] "+r"(fraction), "+z"(entry), [octaves] "+r"(octaves));
    }
#else
    {
        const uint8_t rest = (uint8_t)(fraction >> 3);
        entry += fraction >> 11;
        value = (uint16_t)(MACHINE_WORD(entry) - MACHINE_WORD(entry + 1)); /* the step, which two bytes are multiplied of */
        value = (uint16_t)((value >> 8) * rest + (((value & 255U) * rest) >> 8));
        value = (uint16_t)((uint16_t)(MACHINE_WORD(entry) - value) >> octaves);
    }
#endif
    return (int16_t)((uint16_t)(value + 1) >> 1);
}

static MACHINE_APART int16_t machine_within(int32_t value, int16_t limit)
{
    if (value > limit) return limit;
    return (int16_t)(value < -limit ? -limit : value);
}

/* A row as the kernel sees it, and MACHINE_NORM_START more than its square. */
static MACHINE_APART int32_t machine_inputs(const int16_t *x, int16_t *u)
{
    uint32_t squares = 0;
    int32_t value;
    MACHINE_COUNT i;
#if defined(MACHINE_MAP)
    const int8_t *row = machine_map;
    int16_t features[MACHINE_FEATURES];
#endif
#if defined(MACHINE_PIECES)
    const int16_t *bend = machine_bends;
#endif
    for (i = 0; i < MACHINE_FEATURES; i++) {
        int16_t number = x[i];
#if defined(MACHINE_FILL)
        if (number == INT16_MIN) number = (int16_t)MACHINE_WORD(machine_fill + i); /* missing */
#endif
#if defined(MACHINE_PIECES) /* slopes times the parts of the number between knots */
        {
            uint8_t pieces = MACHINE_BYTE(machine_pieces + i);
            int16_t begin = 0;
            for (value = 0; pieces; pieces--) {
                const int16_t slope = (int16_t)MACHINE_WORD(bend++);
                int16_t end = number;
                if (pieces > 1) {
                    const int16_t knot = (int16_t)MACHINE_WORD(bend++);
                    if (knot < end) end = knot;
                }
                value += slope * ((int32_t)end - begin);
                begin = end;
            }
        }
#else
        value = (int32_t)number * MACHINE_FACTOR(i);
#endif
        value = ((value + (((int32_t)1 << MACHINE_SHIFT(i)) >> 1)) >> MACHINE_SHIFT(i)) + MACHINE_OFFSET(i);
#if defined(MACHINE_MAP) /* the kernel sees linear combinations of the features */
        features[i] = machine_within(value, MACHINE_REACH);
    }
    for (i = 0; i < MACHINE_INPUTS; i++) {
        value = machine_dot(features, row, MACHINE_FEATURES) + (((int32_t)1 << MACHINE_MAP_DROP) >> 1);
        value = (int32_t)(int16_t)(value >> MACHINE_MAP_DROP) * (int32_t)MACHINE_WORD(machine_map_factor + i);
        value = (value + (((int32_t)1 << MACHINE_MAP_SHIFT) >> 1)) >> MACHINE_MAP_SHIFT;
        row += MACHINE_FEATURES;
#endif
        u[i] = machine_within(value, MACHINE_LIMIT);
        squares += (uint32_t)((int32_t)u[i] * u[i]) >> MACHINE_SQUARE_DROP;
    }
    u[MACHINE_INPUTS] = -MACHINE_SQUARE_HIGH; /* a vector ends with its square */
    u[MACHINE_INPUTS + 1] = -MACHINE_SQUARE_LOW;
#if defined(MACHINE_NORM)
    squares = (squares >> 16) * MACHINE_NORM + (((squares & 65535U) * MACHINE_NORM) >> 16);
#endif
    squares >>= MACHINE_NORM_SHIFT;
#if defined(MACHINE_NORM_MOST)
    if (squares > UINT32_C(1) << MACHINE_NORM_MOST) squares = UINT32_C(1) << MACHINE_NORM_MOST;
#endif
    return (int32_t)squares + MACHINE_NORM_START;
}

void machine_scores(const int16_t *x, int32_t *scores)
{
    int16_t u[MACHINE_INPUTS + 2], kernel[MACHINE_VECTORS + 2];
    const int32_t norm = machine_inputs(x, u);
    const int8_t *bytes = machine_basis;
    MACHINE_COUNT i;
    for (i = 0; i < MACHINE_VECTORS; i++) {
        kernel[i] = machine_power(norm - machine_dot(u, bytes, MACHINE_INPUTS + 2));
        bytes += MACHINE_INPUTS + 2;
    }
    kernel[MACHINE_VECTORS] = MACHINE_INTERCEPT_HIGH; /* the weights of an output end with its intercept */
    kernel[MACHINE_VECTORS + 1] = MACHINE_INTERCEPT_LOW;
    bytes = machine_weights;
    for (i = 0; i < MACHINE_OUTPUTS; i++) {
        int32_t value = machine_dot(kernel, bytes, MACHINE_VECTORS + 2);
#if defined(MACHINE_WEIGHT_FACTOR)
        value = (value >> 16) * MACHINE_WORD(machine_weight_factor + i)
                + (int32_t)(((uint32_t)(uint16_t)value * MACHINE_WORD(machine_weight_factor + i)) >> 16);
#endif
        scores[i] = value;
        bytes += MACHINE_VECTORS + 2;
    }
}

#if defined(MACHINE_REGRESSOR)
#if MACHINE_SCORES == 1
int32_t machine_predict(const int16_t *x)
{
    int32_t score;
    machine_scores(x, &score);
    return score;
}
#endif
#else
int machine_predict(const int16_t *x)
{
    int32_t scores[MACHINE_SCORES];
    machine_scores(x, scores);
#if defined(MACHINE_OUTLIER)
    return scores[0] >= 0 ? 1 : -1;
#elif MACHINE_SCORES == 1
    return scores[0] > 0;
#else
    {
        int32_t most = scores[0];
        MACHINE_COUNT best = 0, i;
        for (i = 1; i < MACHINE_SCORES; i++)
            if (scores[i] > most) most = scores[i], best = i;
        return best;
    }
#endif
}
#endif

#if !defined(MACHINE_NO_FLOAT)
#if defined(MACHINE_SCALES)
static const float machine_scales[MACHINE_FEATURES] MACHINE_FLASH = {MACHINE_SCALES};
#define MACHINE_SCALE(i) MACHINE_REAL_AT(machine_scales + (i))
#endif

void machine_quantise(const float *values, int16_t *x)
{
    MACHINE_COUNT i;
    for (i = 0; i < MACHINE_FEATURES; i++) {
        const float value = values[i] * MACHINE_SCALE(i);
        if (value >= 32767.0F) x[i] = 32767;
        else if (value <= -32767.0F) x[i] = -32767;
        else if (value != value) x[i] = INT16_MIN; /* missing */
        else {
            const int16_t whole = (int16_t)value;
            const float rest = value - (float)whole;
            x[i] = (int16_t)(whole + (rest >= 0.5F) - (rest <= -0.5F));
        }
    }
}
#endif

#if defined(MACHINE_SELFTEST)
int machine_selftest(void)
{
    static const int16_t rows[MACHINE_TESTS * MACHINE_FEATURES] MACHINE_FLASH = {MACHINE_TEST_ROWS};
    static const int32_t expected[MACHINE_TESTS * MACHINE_SCORES] MACHINE_FLASH = {MACHINE_TEST_SCORES};
    int16_t x[MACHINE_FEATURES];
    int32_t scores[MACHINE_SCORES];
    int wrong = 0, test, i;
    for (test = 0; test < MACHINE_TESTS; test++) {
        for (i = 0; i < MACHINE_FEATURES; i++) x[i] = (int16_t)MACHINE_WORD(rows + test * MACHINE_FEATURES + i);
        machine_scores(x, scores);
        for (i = 0; i < MACHINE_SCORES; i++)
            if (scores[i] != (int32_t)MACHINE_LONG(expected + test * MACHINE_SCORES + i)) break;
        wrong += i < MACHINE_SCORES;
    }
    return wrong;
}
#endif
