/* A loop around one call, for the simulators: CALL uses x and writes result. Without ROWS it is what its size is of. */
#include <stdint.h>
#include HEADER
X_TYPE x[N_FEATURES];
volatile RESULT_TYPE result[N_RESULTS];

#if defined(__AVR__)
#include <avr/io.h>
int main(void)
{
    for (;;) {
        GPIOR0 = 1; /* the simulator puts a row into x */
        __asm__ volatile("" ::: "memory");
        GPIOR0 = 2;
        __asm__ volatile("" ::: "memory");
        CALL;
        __asm__ volatile("" ::: "memory");
        GPIOR0 = 3;
    }
}
#elif !defined(ROWS)
int main(void)
{
    for (;;) CALL;
}
#else
extern const X_TYPE rows[];

/* Semihosting: the simulator does what it is asked by a breakpoint. */
static int ask(int what, const void *argument)
{
    register int r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void print(const char *before, uint32_t value, int digits)
{
    char text[9] = {0};
    ask(4, before);
    for (int i = digits - 1; i >= 0; i--, value >>= 4) text[i] = "0123456789abcdef"[value & 15];
    ask(4, text);
}

int main(void)
{
    volatile uint32_t *const timer = (uint32_t *)0xE000E010; /* SysTick counts cycles of 40 instructions down */
    uint32_t ticks = 0, *word, stack;
    __asm__ volatile("mov %0, sp" : "=r"(stack));
    for (word = (uint32_t *)(stack - 16384); word < (uint32_t *)(stack - 64); word++) *word = 0xdeadbeef;
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < N_FEATURES; i++) x[i] = rows[row * N_FEATURES + i];
        timer[1] = 0xffffff, timer[2] = 0, timer[0] = 5;
        const uint32_t start = timer[2];
        CALL;
        ticks += (start - timer[2]) & 0xffffff;
        for (unsigned i = 0; i < sizeof result; i++) print("", ((volatile uint8_t *)result)[i], 2);
        ask(4, "\n");
    }
    for (word = (uint32_t *)(stack - 16384); *word == 0xdeadbeef; word++) {}
    print("ticks ", ticks, 8);
    print(" stack ", stack - (uint32_t)word, 8);
    ask(4, "\n");
    ask(0x18, (void *)0x20026);
    for (;;) {}
}
#endif
