/* Runs firmware of `firmware.c` on a simulated ATmega328P: feeds rows, prints results in hexadecimal and cycles.

   avr_runner ELF ROWS N_ROWS X_ADDRESS X_BYTES RESULT_ADDRESS RESULT_BYTES

   The firmware writes 1 to GPIOR0 when it wants a row, 2 before a prediction and 3 after it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_core.h>
#include <simavr/sim_elf.h>
#include <simavr/sim_io.h>

enum { GPIOR0 = 0x3e, SPL = 0x5d, SPH = 0x5e };
static volatile int signal;
static avr_cycle_count_t signal_cycle;

static void on_signal(struct avr_t *avr, avr_io_addr_t address, uint8_t value, void *unused)
{
    (void)unused;
    avr->data[address] = value;
    signal = value;
    signal_cycle = avr->cycle;
}

int main(int n, char **words)
{
    elf_firmware_t firmware;
    memset(&firmware, 0, sizeof firmware);
    if (n != 8 || elf_read_firmware(words[1], &firmware)) return 2;
    avr_t *avr = avr_make_mcu_by_name("atmega328p");
    avr_init(avr);
    avr->log = 0;
    firmware.frequency = 16000000;
    avr_load_firmware(avr, &firmware);
    avr_register_io_write(avr, GPIOR0, on_signal, NULL);
    const unsigned n_rows = (unsigned)atoi(words[3]), x = strtoul(words[4], 0, 0) & 0xffff, x_bytes = (unsigned)atoi(words[5]);
    const unsigned result = strtoul(words[6], 0, 0) & 0xffff, result_bytes = (unsigned)atoi(words[7]);
    unsigned char *rows = malloc((size_t)x_bytes * n_rows + 1);
    FILE *file = fopen(words[2], "rb");
    if (!file || fread(rows, x_bytes, n_rows, file) != n_rows) return 3;
    unsigned row = 0, deepest = 0xffff, outside = 0, inside = 0;
    avr_cycle_count_t start = 0, total = 0, most = 0;
    for (;;) {
        const int state = avr_run(avr);
        const unsigned stack = avr->data[SPL] | (unsigned)avr->data[SPH] << 8;
        if (inside && stack < deepest) deepest = stack;
        if (signal == 1) {
            if (row == n_rows) break;
            memcpy(avr->data + x, rows + (size_t)row * x_bytes, x_bytes);
        } else if (signal == 2) {
            start = signal_cycle, inside = 1, outside = stack;
        } else if (signal == 3) {
            const avr_cycle_count_t cycles = signal_cycle - start;
            inside = 0, total += cycles, most = cycles > most ? cycles : most, row++;
            for (unsigned i = 0; i < result_bytes; i++) printf("%02x", avr->data[result + i]);
            printf("\n");
        }
        signal = 0;
        if (state == cpu_Done || state == cpu_Crashed || avr->cycle > 20000000000ull) return 4;
    }
    printf("cycles %.0f most %llu stack %d\n", (double)total / row, (unsigned long long)most, (int)(outside - deepest));
    return 0;
}
