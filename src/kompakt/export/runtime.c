/* -- From here on the text is the same for every machine; what differs is defined above. ------------------------- */

/* Writes MACHINE_SCORES decision values for a row of MACHINE_FEATURES numbers. */
void machine_scores(const MACHINE_REAL *x, MACHINE_REAL *scores);
#if !defined(MACHINE_REGRESSOR)
/* The index of the label in machine_classes, -1 if a score is NaN or infinite; of an outlier detector, 1 for an inlier
   and -1 for an outlier. */
int machine_predict(const MACHINE_REAL *x);
#elif MACHINE_SCORES == 1
MACHINE_REAL machine_predict(const MACHINE_REAL *x);
#endif

#if defined(MACHINE_DOUBLE)
#define MACHINE_EXP exp
#define MACHINE_ABS fabs
#else
#define MACHINE_EXP expf
#define MACHINE_ABS fabsf
#endif

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
        const int last = machine_pieces[f] - 1;
        const MACHINE_REAL v = u[f];
        u[f] = slope[0] * (last && v > knot[0] ? knot[0] : v);
        for (k = 1; k <= last && v > knot[k - 1]; k++)
            u[f] += slope[k] * ((k < last && v > knot[k] ? knot[k] : v) - knot[k - 1]);
        knot += last;
        slope += last + 1;
    }
}
#endif

void machine_scores(const MACHINE_REAL *x, MACHINE_REAL *scores)
{
    MACHINE_REAL u[MACHINE_FEATURES], raw[MACHINE_OUTPUTS];
    int f, j, l;
    for (f = 0; f < MACHINE_FEATURES; f++) {
        MACHINE_REAL v = x[f];
#if defined(MACHINE_FILL)
        if (v != v) v = machine_fill[f]; /* missing */
#endif
#if defined(MACHINE_SHIFT)
        v -= machine_shift[f];
#endif
#if defined(MACHINE_FACTOR)
        v *= machine_factor[f];
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
        for (f = 0; f < MACHINE_FEATURES; f++) mapped[j] += machine_map[j * MACHINE_FEATURES + f] * u[f];
#if defined(MACHINE_MAP_STEPS)
        mapped[j] *= machine_map_step[j];
#endif
    }
#else
    const MACHINE_REAL *const mapped = u;
#endif
    for (l = 0; l < MACHINE_OUTPUTS; l++) raw[l] = machine_intercept[l];
    for (j = 0; j < MACHINE_VECTORS; j++) {
        MACHINE_REAL k, squares = 0, lengths = 0, product = 0;
#if defined(MACHINE_WIDTHS) /* for RBF kernels with a width per feature inside a sum or product */
        MACHINE_REAL weighted[MACHINE_WIDTHS] = {0};
#endif
        for (f = 0; f < MACHINE_INPUTS; f++) {
#if defined(MACHINE_BYTES)
            const MACHINE_REAL level = (MACHINE_REAL)machine_basis[j * MACHINE_INPUTS + f];
#if defined(MACHINE_STEP)
            const MACHINE_REAL z = MACHINE_STEP * level;
#else
            const MACHINE_REAL z = machine_basis_zero[f] + machine_basis_step[f] * level;
#endif
#else
            const MACHINE_REAL z = machine_basis[j * MACHINE_INPUTS + f];
#endif
            const MACHINE_REAL t = mapped[f] - z;
            squares += t * t;
            lengths += MACHINE_ABS(t);
            product += mapped[f] * z;
#if defined(MACHINE_WIDTHS)
            for (l = 0; l < MACHINE_WIDTHS; l++) weighted[l] += machine_widths[l * MACHINE_INPUTS + f] * (t * t);
#endif
        }
        k = MACHINE_KERNEL;
        (void)squares, (void)lengths, (void)product; /* a compiler leaves out the sums that the kernel does not use */
        for (l = 0; l < MACHINE_OUTPUTS; l++)
#if defined(MACHINE_WEIGHT_BYTES)
            raw[l] += machine_weights_step[l] * (MACHINE_REAL)machine_weights[j * MACHINE_OUTPUTS + l] * k;
#else
            raw[l] += machine_weights[j * MACHINE_OUTPUTS + l] * k;
#endif
    }
#if defined(MACHINE_VOTES) /* each output votes for some classes; margins, less than a third of a vote, break ties */
    for (j = 0; j < MACHINE_SCORES; j++) {
        MACHINE_REAL votes = MACHINE_VOTES, margin = 0;
        for (l = 0; l < MACHINE_OUTPUTS; l++) {
            const MACHINE_REAL code = (MACHINE_REAL)machine_codes[j * MACHINE_OUTPUTS + l];
            votes += (raw[l] > 0 ? code : -code) / 2;
            margin += code * raw[l];
        }
        scores[j] = votes + margin / (3 * (MACHINE_ABS(margin) + 1));
    }
#elif defined(MACHINE_VALUE_OF_LOG)
    for (l = 0; l < MACHINE_OUTPUTS; l++) scores[l] = MACHINE_VALUE_OF_LOG(raw[l]);
#else
    for (l = 0; l < MACHINE_OUTPUTS; l++) scores[l] = raw[l];
#endif
}

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

#if defined(MACHINE_MAIN)
#include <stdio.h>
#include <stdlib.h>
/* One row per line, its numbers between blanks; empty lines are skipped. Any other line ends the program. */
int main(void)
{
    MACHINE_REAL x[MACHINE_FEATURES], scores[MACHINE_SCORES];
    char text[2048], *end; /* one number; the longest of a double, written out, has 1077 characters */
    size_t length = 0, i;
    long line = 1, found = 0;
    int c, j;
    do {
        c = getchar();
        const int blank = c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == EOF;
        if (!blank && length + 1 < sizeof text) {
            text[length++] = (char)c;
            continue;
        }
        if (length) {
            text[length] = 0;
            const double value = strtod(text, &end);
            if (end != text + length || !blank) {
                fprintf(stderr, "line %ld: value %ld is not a number: ", line, found + 1);
                for (i = 0; i < length && i < 40; i++) putc(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?', stderr);
                fprintf(stderr, "\n");
                return 1;
            }
            if (found < MACHINE_FEATURES) x[found] = (MACHINE_REAL)value;
            found++;
            length = 0;
        }
        if (c != '\n' && c != EOF) continue;
        if (found && found != MACHINE_FEATURES) {
            fprintf(stderr, "line %ld: expected %d numbers, found %ld\n", line, MACHINE_FEATURES, found);
            return 1;
        }
        if (found) {
            machine_scores(x, scores);
#if !defined(MACHINE_REGRESSOR)
            printf("%d", machine_predict(x));
#endif
            for (j = 0; j < MACHINE_SCORES; j++)
                printf(" %.*g", sizeof(MACHINE_REAL) == sizeof(double) ? 17 : 9, (double)scores[j]);
            printf("\n");
        }
        found = 0;
        line++;
    } while (c != EOF);
    return ferror(stdin) || fflush(stdout);
}
#endif
