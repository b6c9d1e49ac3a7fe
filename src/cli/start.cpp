// Where the kernel enters the program when it is linked statically: in front of libc's _start.
//
// A position-independent program relocates its own tables before anything else, and touches nearly every page
// of its data by that: 150 page faults, a twentieth of a `berth run`. One call has the kernel do the same in
// one go. Kernels before 5.14 do not know it; then the pages come one by one.

asm(R"(
    .text
    .globl berth_start
    .hidden berth_start
    .type berth_start, @function
berth_start:
    .cfi_startproc
    .cfi_undefined rip
    leaq __init_array_start(%rip), %rdi
    andq $-4096, %rdi
    leaq __bss_start(%rip), %rsi
    subq %rdi, %rsi
    movl $23, %edx                  # MADV_POPULATE_WRITE
    movl $28, %eax                  # madvise
    syscall
    xorl %edx, %edx                 # as the kernel left it: nothing to call at exit
    jmp _start
    .cfi_endproc
    .size berth_start, . - berth_start
    .section .note.GNU-stack, "", @progbits
    .text
)");
