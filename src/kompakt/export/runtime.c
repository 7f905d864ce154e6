/* -- From here on the text is the same for every machine; what differs is defined above. ------------------------- */

#if defined(MACHINE_DOUBLE)
#define MACHINE_EXP exp
#else
#define MACHINE_EXP(x) ((float)expf(x)) /* AVR has one type, of two names */
#endif
#define MACHINE_ABS(x) ((x) < 0 ? -(x) : (x))

#if defined(MACHINE_POWER) /* for a polynomial kernel */
static MACHINE_REAL machine_power(MACHINE_REAL base, long n)
{
    MACHINE_REAL result = 1;
    for (; n; n /= 2, base *= base)
        if (n % 2) result *= base;
    return result;
}
#endif

#if defined(MACHINE_PIECES)
static void machine_bend(MACHINE_REAL *u)
{
    const MACHINE_REAL *knot = machine_knots, *slope = machine_slopes;
    int f, k;
    for (f = 0; f < MACHINE_FEATURES; f++) {
        const int last = MACHINE_BYTE(machine_pieces + f) - 1;
        const MACHINE_REAL v = u[f];
        MACHINE_REAL begin = 0;
        u[f] = 0;
        for (k = 0; k <= last; k++) {
            const MACHINE_REAL end = k < last ? MACHINE_REAL_AT(knot + k) : v;
            if (k && v <= begin) break;
            u[f] += MACHINE_REAL_AT(slope + k) * ((v > end ? end : v) - begin);
            begin = end;
        }
        knot += last;
        slope += last + 1;
    }
}
#endif

/* The outputs of a row, before they become scores. */
static void machine_outputs(const MACHINE_REAL *x, MACHINE_REAL *raw)
{
    MACHINE_REAL u[MACHINE_FEATURES];
    int f, j, l;
    for (f = 0; f < MACHINE_FEATURES; f++) {
        MACHINE_REAL v = x[f];
#if defined(MACHINE_FILL)
        if (v != v) v = MACHINE_REAL_AT(machine_fill + f); /* missing */
#endif
#if defined(MACHINE_SHIFT)
        v -= MACHINE_REAL_AT(machine_shift + f);
#endif
#if defined(MACHINE_FACTOR)
        v *= MACHINE_REAL_AT(machine_factor + f);
#endif
        u[f] = v;
    }
#if defined(MACHINE_PIECES) /* piecewise-linear transforms of the features */
    machine_bend(u);
#endif
#if defined(MACHINE_MAP) /* the kernel sees linear combinations of the features */
    MACHINE_REAL mapped[MACHINE_INPUTS];
    for (j = 0; j < MACHINE_INPUTS; j++) {
        mapped[j] = 0;
        for (f = 0; f < MACHINE_FEATURES; f++) mapped[j] += MACHINE_MAP_AT(machine_map + j * MACHINE_FEATURES + f) * u[f];
#if defined(MACHINE_MAP_STEPS)
        mapped[j] *= MACHINE_REAL_AT(machine_map_step + j);
#endif
    }
#else
    MACHINE_REAL *const mapped = u;
#endif
#if defined(MACHINE_STEP) /* distances are formed in steps of the basis */
    for (f = 0; f < MACHINE_INPUTS; f++) mapped[f] /= MACHINE_STEP;
#endif
    for (l = 0; l < MACHINE_OUTPUTS; l++) raw[l] = 0;
    for (j = 0; j < MACHINE_VECTORS; j++) {
        MACHINE_REAL k, squares = 0, lengths = 0, product = 0;
#if defined(MACHINE_WIDTHS) /* for RBF kernels with a width per feature inside a sum or product */
        MACHINE_REAL weighted[MACHINE_WIDTHS] = {0};
#endif
        for (f = 0; f < MACHINE_INPUTS; f++) {
#if defined(MACHINE_BYTES)
            const MACHINE_REAL level = (MACHINE_REAL)MACHINE_BASIS_AT(machine_basis + j * MACHINE_INPUTS + f);
#if defined(MACHINE_STEP)
            const MACHINE_REAL z = level;
#else
            const MACHINE_REAL z = MACHINE_REAL_AT(machine_basis_zero + f) + MACHINE_REAL_AT(machine_basis_step + f) * level;
#endif
#else
            const MACHINE_REAL z = MACHINE_BASIS_AT(machine_basis + j * MACHINE_INPUTS + f);
#endif
            const MACHINE_REAL t = mapped[f] - z;
            squares += t * t;
            lengths += MACHINE_ABS(t);
            product += mapped[f] * z;
#if defined(MACHINE_WIDTHS)
            for (l = 0; l < MACHINE_WIDTHS; l++) weighted[l] += MACHINE_REAL_AT(machine_widths + l * MACHINE_INPUTS + f) * (t * t);
#endif
        }
#if defined(MACHINE_STEP)
        squares *= MACHINE_STEP * MACHINE_STEP;
        lengths *= MACHINE_STEP;
        product *= MACHINE_STEP * MACHINE_STEP;
#if defined(MACHINE_WIDTHS)
        for (l = 0; l < MACHINE_WIDTHS; l++) weighted[l] *= MACHINE_STEP * MACHINE_STEP;
#endif
#endif
        k = MACHINE_KERNEL;
        (void)squares, (void)lengths, (void)product; /* a compiler leaves out the sums that the kernel does not use */
        for (l = 0; l < MACHINE_OUTPUTS; l++)
            raw[l] += (MACHINE_REAL)MACHINE_WEIGHT_AT(machine_weights + j * MACHINE_OUTPUTS + l) * k;
    }
    for (l = 0; l < MACHINE_OUTPUTS; l++) {
#if defined(MACHINE_WEIGHTS_STEP)
        raw[l] *= MACHINE_REAL_AT(machine_weights_step + l);
#endif
        raw[l] += MACHINE_REAL_AT(machine_intercept + l);
    }
}

void machine_scores(const MACHINE_REAL *x, MACHINE_REAL *scores)
{
    MACHINE_REAL raw[MACHINE_OUTPUTS];
    int l;
    machine_outputs(x, raw);
#if defined(MACHINE_VOTES) /* each output votes for some classes; margins, less than a third of a vote, break ties */
    for (int j = 0; j < MACHINE_SCORES; j++) {
        MACHINE_REAL votes = MACHINE_VOTES, margin = 0;
        for (l = 0; l < MACHINE_OUTPUTS; l++) {
            const MACHINE_REAL code = (MACHINE_REAL)(int8_t)MACHINE_BYTE(machine_codes + j * MACHINE_OUTPUTS + l);
            votes += (raw[l] > 0 ? code : -code) / 2;
            margin += code * raw[l];
        }
        scores[j] = votes + margin / (3 * (MACHINE_ABS(margin) + 1));
    }
#elif defined(MACHINE_VALUE_OF_LOG)
    for (l = 0; l < MACHINE_SCORES; l++) scores[l] = MACHINE_VALUE_OF_LOG(raw[l]);
#else
    for (l = 0; l < MACHINE_SCORES; l++) scores[l] = raw[l]; /* the noise of an interval comes after them */
#endif
#if defined(MACHINE_ORDERED) /* quantiles, which do not cross */
    for (l = 1; l < MACHINE_SCORES; l++) {
        const MACHINE_REAL value = scores[l];
        int place = l;
        for (; place > 0 && scores[place - 1] > value; place--) scores[place] = scores[place - 1];
        scores[place] = value;
    }
#endif
}

#if defined(MACHINE_PROBABILITIES)
void machine_probabilities(const MACHINE_REAL *x, MACHINE_REAL *chances)
{
    MACHINE_REAL scores[MACHINE_SCORES], total = 0;
    int l;
    machine_scores(x, scores);
#if defined(MACHINE_TEMPERATURE)
    MACHINE_REAL top = scores[0];
    for (l = 1; l < MACHINE_SCORES; l++)
        if (scores[l] > top) top = scores[l];
    if (MACHINE_SCORES == 1) top = 0;
    for (l = 0; l < MACHINE_SCORES; l++) scores[l] = MACHINE_EXP((scores[l] - top) / (MACHINE_TEMPERATURE));
    if (MACHINE_SCORES == 1) scores[0] = 1 - 1 / (1 + scores[0]); /* of two classes, one score */
#elif defined(MACHINE_CURVES) /* a line through points for every score */
    for (l = 0; l < MACHINE_SCORES; l++) {
        int i = l ? (int16_t)MACHINE_WORD(machine_curve_end + l - 1) : 0;
        const int last = (int16_t)MACHINE_WORD(machine_curve_end + l) - 1;
        const MACHINE_REAL s = scores[l];
        while (i < last && s > MACHINE_REAL_AT(machine_curve_x + i + 1)) i++;
        const MACHINE_REAL left = MACHINE_REAL_AT(machine_curve_x + i), low = MACHINE_REAL_AT(machine_curve_y + i);
        scores[l] = low + (s - s); /* NaN stays NaN */
        if (i < last && s > left)
            scores[l] += (s - left) / (MACHINE_REAL_AT(machine_curve_x + i + 1) - left)
                * (MACHINE_REAL_AT(machine_curve_y + i + 1) - low);
    }
#else
    for (l = 0; l < MACHINE_SCORES; l++)
        scores[l] = 1 / (1 + MACHINE_EXP(MACHINE_REAL_AT(machine_slope + l) * scores[l] + MACHINE_REAL_AT(machine_start + l)));
#endif
    if (MACHINE_SCORES == 1) {
        chances[0] = 1 - scores[0];
        chances[1] = scores[0];
        return;
    }
    for (l = 0; l < MACHINE_SCORES; l++) total += scores[l];
    for (l = 0; l < MACHINE_SCORES; l++) chances[l] = total > 0 ? scores[l] / total : (MACHINE_REAL)1 / MACHINE_SCORES;
}
#endif

#if defined(MACHINE_INTERVAL)
void machine_interval(const MACHINE_REAL *x, MACHINE_REAL *lower, MACHINE_REAL *upper)
{
    MACHINE_REAL raw[MACHINE_OUTPUTS];
    int l;
    machine_outputs(x, raw);
    for (l = 0; l < MACHINE_SCORES; l++) {
        MACHINE_REAL reach = MACHINE_REAL_AT(machine_reach + l);
#if defined(MACHINE_NOISE)
        const MACHINE_REAL noise = raw[MACHINE_SCORES + l];
        const MACHINE_REAL least = MACHINE_REAL_AT(machine_floor + l);
        reach *= noise < least ? least : noise;
#endif
        lower[l] = raw[l] - reach;
        upper[l] = raw[l] + reach;
#if defined(MACHINE_VALUE_OF_LOG)
        lower[l] = MACHINE_VALUE_OF_LOG(lower[l]);
        upper[l] = MACHINE_VALUE_OF_LOG(upper[l]);
#endif
    }
}
#endif

#if defined(MACHINE_CLASSIFIER)
int machine_predict(const MACHINE_REAL *x)
{
    MACHINE_REAL scores[MACHINE_SCORES];
    int best = 0, j;
    machine_scores(x, scores);
    for (j = 0; j < MACHINE_SCORES; j++) {
        if (scores[j] - scores[j] != 0) return -1; /* NaN or infinite */
        if (scores[j] > scores[best]) best = j;
    }
    if (MACHINE_SCORES == 1) return scores[0] > 0;
    return best;
}
#elif defined(MACHINE_OUTLIER)
int machine_predict(const MACHINE_REAL *x)
{
    MACHINE_REAL score;
    machine_scores(x, &score);
    return score >= 0 ? 1 : -1;
}
#elif MACHINE_SCORES == 1
MACHINE_REAL machine_predict(const MACHINE_REAL *x)
{
    MACHINE_REAL value;
    machine_scores(x, &value);
    return value;
}
#endif
