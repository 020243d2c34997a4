# What the compiler calls for copying and comparing memory, as C has it; there is no C
# library here, and Rust's own loops would be turned into calls of themselves.

.text
.global memcpy, memmove, memset, memcmp, bcmp

memcpy:
    movq %rdi, %rax
    movq %rdx, %rcx
    rep movsb
    ret

# A copy forward overwrites nothing that is still to be read; else from the last byte down.
memmove:
    movq %rdi, %rax
    subq %rsi, %rax
    cmpq %rdx, %rax
    jae memcpy
    movq %rdi, %rax
    movq %rdx, %rcx
    leaq -1(%rdi, %rdx), %rdi
    leaq -1(%rsi, %rdx), %rsi
    std
    rep movsb
    cld
    ret

memset:
    movq %rdi, %r8
    movq %rdx, %rcx
    movl %esi, %eax
    rep stosb
    movq %r8, %rax
    ret

bcmp:
memcmp:
    movq %rdx, %rcx
    xorl %eax, %eax                 # equal, where nothing is compared
    repe cmpsb
    je 1f
    movzbl -1(%rdi), %eax
    movzbl -1(%rsi), %ecx
    subl %ecx, %eax
1:  ret
