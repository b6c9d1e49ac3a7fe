#include "sys/raw_syscall.hpp"

// The child starts on an empty stack, so it must not return through this frame: entry and argument
// travel in registers that the system call preserves.
asm(R"(
    .text
    .globl berth_clone3
    .type berth_clone3, @function
berth_clone3:
    .cfi_startproc
    movq %rdx, %r8
    movq %rcx, %r9
    movl $435, %eax
    syscall
    testq %rax, %rax
    jz 1f
    ret
1:  .cfi_undefined rip
    xorl %ebp, %ebp
    movq %r9, %rdi
    call *%r8
    movl %eax, %edi
    movl $60, %eax
    syscall
    hlt
    .cfi_endproc
    .size berth_clone3, . - berth_clone3
    .section .note.GNU-stack, "", @progbits
    .text
)");
