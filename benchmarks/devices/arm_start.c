/* What a Cortex-M does before main. */
#include <stdint.h>
extern uint32_t _stack, _data, _data_end, _data_load, _zero, _zero_end;
int main(void);

void reset(void)
{
#if defined(__ARM_FP)
    *(volatile uint32_t *)0xE000ED88 |= 0xF << 20; /* the floating point unit */
    __asm__ volatile("dsb; isb");
#endif
    const uint32_t *from = &_data_load;
    for (uint32_t *to = &_data; to < &_data_end;) *to++ = *from++;
    for (uint32_t *to = &_zero; to < &_zero_end;) *to++ = 0;
    main();
    for (;;) {}
}

static void fault(void)
{
    for (;;) {}
}

__attribute__((section(".vectors"), used)) static void *const vectors[] = {
    &_stack, reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, 0, 0, fault, fault
};
