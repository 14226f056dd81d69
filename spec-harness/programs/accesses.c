// A plugin for QEMU that is called at each load and store, and adds up addresses: the least that a tool which looks at
// memory does. QEMU's packages have no header for plugins: what is used of version 1 is declared here.
#include <stddef.h>
#include <stdint.h>

struct block;
struct instruction;

enum { WITHOUT_REGISTERS = 0, LOADS_AND_STORES = 3 };

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t plugin, void (*)(uint64_t plugin, struct block *));
size_t qemu_plugin_tb_n_insns(const struct block *);
struct instruction *qemu_plugin_tb_get_insn(const struct block *, size_t index);
void qemu_plugin_register_vcpu_mem_cb(struct instruction *,
                                      void (*)(unsigned cpu, uint32_t kind, uint64_t address, void *data), int registers,
                                      int which, void *data);

int qemu_plugin_version = 1;

static volatile uint64_t sum;

static void accessed(unsigned cpu, uint32_t kind, uint64_t address, void *data) {
    (void)cpu, (void)kind, (void)data;
    sum += address;
}

static void translated(uint64_t plugin, struct block *block) {
    (void)plugin;
    size_t count = qemu_plugin_tb_n_insns(block);
    for (size_t i = 0; i < count; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), accessed, WITHOUT_REGISTERS, LOADS_AND_STORES,
                                         0);
}

int qemu_plugin_install(uint64_t plugin, const void *info, int argc, char **argv) {
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(plugin, translated);
    return 0;
}
