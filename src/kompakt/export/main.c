#if defined(MACHINE_MAIN)
#include <stdio.h>
#include <stdlib.h>
/* One row per line, its numbers between blanks; empty lines are skipped. Any other line ends the program. */
int main(void)
{
    MACHINE_REAL values[MACHINE_FEATURES];
#if defined(MACHINE_INTEGER)
    int16_t x[MACHINE_FEATURES];
    int32_t scores[MACHINE_SCORES];
#else
    const MACHINE_REAL *const x = values;
    MACHINE_REAL scores[MACHINE_SCORES];
#endif
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
            if (found < MACHINE_FEATURES) values[found] = (MACHINE_REAL)value;
            found++;
            length = 0;
        }
        if (c != '\n' && c != EOF) continue;
        if (found && found != MACHINE_FEATURES) {
            fprintf(stderr, "line %ld: expected %d numbers, found %ld\n", line, MACHINE_FEATURES, found);
            return 1;
        }
        if (found) {
#if defined(MACHINE_INTEGER)
            machine_quantise(values, x);
#endif
            machine_scores(x, scores);
#if !defined(MACHINE_REGRESSOR)
            printf("%d", machine_predict(x));
#endif
            for (j = 0; j < MACHINE_SCORES; j++)
#if defined(MACHINE_INTEGER)
                printf(" %ld", (long)scores[j]);
#else
                printf(" %.*g", sizeof(MACHINE_REAL) == sizeof(double) ? 17 : 9, (double)scores[j]);
#endif
#if defined(MACHINE_PROBABILITIES)
            MACHINE_REAL chances[MACHINE_PROBABILITIES];
            machine_probabilities(x, chances);
            for (j = 0; j < MACHINE_PROBABILITIES; j++)
                printf(" %.*g", sizeof(MACHINE_REAL) == sizeof(double) ? 17 : 9, (double)chances[j]);
#endif
#if defined(MACHINE_INTERVAL)
            MACHINE_REAL lower[MACHINE_SCORES], upper[MACHINE_SCORES];
            machine_interval(x, lower, upper);
            for (j = 0; j < MACHINE_SCORES; j++) {
                printf(" %.*g", sizeof(MACHINE_REAL) == sizeof(double) ? 17 : 9, (double)lower[j]);
                printf(" %.*g", sizeof(MACHINE_REAL) == sizeof(double) ? 17 : 9, (double)upper[j]);
            }
#endif
            printf("\n");
        }
        found = 0;
        line++;
    } while (c != EOF);
    return ferror(stdin) || fflush(stdout);
}
#endif
