# All that runs at CPL 0: two entries, the gates, and seven services. It is kept
# this small because some hypervisors emulate CPL 0 instruction by instruction;
# what is measured runs at CPL 3, on the CPU itself.

.set VCPUS, 32                      # guest::layout::VCPUS_MAX
.set IMAGE, 0x100000                # guest::layout::IMAGE
.set SHARED_LAST_WORDS, 0x8000c0    # main.rs asserts it
.set SHARED_VCPU_SIZE, 0x6100       # main.rs asserts it
.set DOORBELL, 0xf00                # guest::layout::DOORBELL
.set DOORBELL_DIED, 2               # guest::layout::DOORBELL_DIED

.set KERNEL_CODE, 0x10
.set KERNEL_DATA, 0x18
.set USER_DATA, 0x28 | 3
.set USER_CODE, 0x30 | 3
.set USER_FLAGS, 0x3002            # IOPL 3, interrupts off
.set TSS_FIRST, 0x40

.set TSS_SIZE, 0x2100               # 104 bytes, 8 KiB of I/O bitmap, room
.set TSS_LIMIT, 104 + 8192 - 1
.set KERNEL_STACK, 4096
.set USER_STACK, 0x10000

# A vCPU's own block, at GS.
.set OWN_SIZE, 64
.set OWN_INDEX, 0
.set OWN_INTERRUPTS, 8

.set MSR_EFER, 0xc0000080
.set MSR_GS_BASE, 0xc0000101
.set MSR_X2APIC_EOI, 0x80b

# ---------------------------------------------------------------- PVH note
# Xen's ELF note 18, PHYS32_ENTRY: where a 32-bit entry without paging is.
.section .note.Xen, "a", @note
.balign 4
    .long 4, 4, 18
    .asciz "Xen"
    .long pvh_entry

# ------------------------------------------------------------------- gates
# 16 bytes each from IMAGE on. Exceptions push number and error code alike.
.section .gates, "ax", @progbits
.set vector, 0
.rept 48
    .balign 16
    .if vector == 6
        jmp undefined
    .elseif vector < 32
        .if (vector == 8) || ((vector >= 10) && (vector <= 14)) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30)
        .else
            pushq $0
        .endif
        pushq $vector
        jmp exception
    .else
        jmp interrupt
    .endif
    .set vector, vector + 1
.endr

.text
# The stack: vector, error code, RIP, CS, RFLAGS, RSP, SS.
exception:
    pushq %rax
    cmpq $13, 8(%rsp)
    jne died
    movq 24(%rsp), %rax
    cmpq $read_msr_at, %rax
    je refused
    cmpq $write_msr_at, %rax
    jne died
refused:
    movq $msr_refused, 24(%rsp)
    popq %rax
    addq $16, %rsp
    iretq

# Leaves vector, error code, RIP, CR2, RSP, CS as last words, and calls.
died:
    movq %gs:OWN_INDEX, %rax
    imulq $SHARED_VCPU_SIZE, %rax, %rax
    addq $SHARED_LAST_WORDS, %rax
    movq 8(%rsp), %rdx
    movq %rdx, 16(%rax)
    movq 16(%rsp), %rdx
    movq %rdx, 24(%rax)
    movq 24(%rsp), %rdx
    movq %rdx, 32(%rax)
    movq %cr2, %rdx
    movq %rdx, 40(%rax)
    movq 48(%rsp), %rdx
    movq %rdx, 48(%rax)
    movq 32(%rsp), %rdx
    movq %rdx, 56(%rax)
    movq $1, (%rax)
    movl $DOORBELL, %edx
    movl $DOORBELL_DIED, %eax
    outb %al, %dx
dead:
    cli
    hlt
    jmp dead

# Counts, and tells the local APIC that it is done.
interrupt:
    pushq %rax
    pushq %rcx
    pushq %rdx
    incq %gs:OWN_INTERRUPTS
    movl $MSR_X2APIC_EOI, %ecx
    xorl %eax, %eax
    xorl %edx, %edx
    wrmsr
    popq %rdx
    popq %rcx
    popq %rax
    iretq

# ---------------------------------------------------------------- services
# CPL 3 calls `service` with a number in R9 and arguments in RDI and RSI; RAX
# and RDX are the answer, RCX is lost. It comes here as an exception: a KVM
# without hardware was seen to enter a SYSCALL's handler without leaving CPL 3,
# and to know no INT, but exceptions it delivers as a CPU does.
.globl service
service:
    ud2
    ret

undefined:
    cmpq $service, (%rsp)
    jne undefined_elsewhere
    addq $2, (%rsp)                 # past UD2
    cmpl $1, %r9d
    jb read_msr
    je write_msr
    cmpl $3, %r9d
    jb halt
    je halt_forever
    cmpl $5, %r9d
    jb triple_fault
    je read_cpuid
                                    # whether CPL 3 takes interrupts: IF
    andq $~0x200, 16(%rsp)
    testl %edi, %edi
    jz uninterruptible
    orq $0x200, 16(%rsp)
uninterruptible:
    iretq
read_cpuid:                         # EBX:EAX in RAX, EDX:ECX in RDX
    pushq %rbx
    movl %edi, %eax
    movl %esi, %ecx
    cpuid
    shlq $32, %rbx
    orq %rbx, %rax
    shlq $32, %rdx
    orq %rcx, %rdx
    popq %rbx
    iretq
read_msr:                           # value in RAX; RDX is 1 where refused
    movl %edi, %ecx
read_msr_at:
    rdmsr
    shlq $32, %rdx
    orq %rdx, %rax
    xorl %edx, %edx
    iretq
write_msr:
    movl %edi, %ecx
    movl %esi, %eax
    movq %rsi, %rdx
    shrq $32, %rdx
write_msr_at:
    wrmsr
    xorl %edx, %edx
    iretq
msr_refused:
    movl $1, %edx
    iretq
halt:
    sti
    hlt
    cli
    iretq
halt_forever:
    cli
    hlt
    jmp halt_forever
triple_fault:
    lidt no_idt
    ud2
undefined_elsewhere:
    pushq $0
    pushq $6
    jmp exception

# ----------------------------------------------------------------- entries
# PVH: 32 bits, no paging, flat segments.
.code32
pvh_entry:
    cli
    cld
    movl $tables_4, %eax
    movl %eax, %cr3
    movl $0x620, %eax               # PAE, OSFXSR, OSXMMEXCPT
    movl %eax, %cr4
    movl $MSR_EFER, %ecx
    rdmsr
    orl $0x100, %eax                # LME
    wrmsr
    movl $0x80000023, %eax          # PG, NE, MP, PE
    movl %eax, %cr0
    lgdt gdt_pointer
    ljmp $KERNEL_CODE, $pvh_entry_64
.code64
pvh_entry_64:
    xorl %edi, %edi
    xorl %esi, %esi

# Our own machine starts each vCPU here, in 64-bit mode at CPL 0, with its
# index in RDI and a magic number in RSI.
.globl entry
entry:
    cli
    cld
    lgdt gdt_pointer
    movl $tables_4, %eax
    movq %rax, %cr3
    movl $KERNEL_DATA, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs
    lidt idt_pointer

    movq %rdi, %r8
    imulq $KERNEL_STACK, %r8, %r8
    leaq kernel_stacks + KERNEL_STACK(%r8), %rsp

    movq %rdi, %r9                  # its TSS: RSP0, and all ports allowed
    imulq $TSS_SIZE, %r9, %r9
    addq $task_states, %r9
    movq %rsp, 4(%r9)
    movw $104, 102(%r9)
    movq %rdi, %r10                 # its descriptor
    shlq $4, %r10
    movl %r9d, gdt + TSS_FIRST + 2(%r10)
    movw $TSS_LIMIT, gdt + TSS_FIRST(%r10)
    movl %r9d, %eax
    shrl $24, %eax
    movb %al, gdt + TSS_FIRST + 7(%r10)
    movw $0x0089, gdt + TSS_FIRST + 5(%r10)
    movq $0, gdt + TSS_FIRST + 8(%r10)
    leal TSS_FIRST(%r10), %eax
    ltr %ax

    movq %rdi, %r8                  # its own block
    shlq $6, %r8
    addq $own, %r8
    movq %rdi, OWN_INDEX(%r8)
    movq $0, OWN_INTERRUPTS(%r8)
    movl $MSR_GS_BASE, %ecx
    movl %r8d, %eax
    xorl %edx, %edx
    wrmsr

    movq %rdi, %r8
    imulq $USER_STACK, %r8, %r8
    leaq user_stacks + USER_STACK - 8(%r8), %r8
    pushq $USER_DATA
    pushq %r8
    pushq $USER_FLAGS
    pushq $USER_CODE
    pushq $main
    iretq

# ------------------------------------------------------------------ tables
.data
.balign 4096
# All of 4 GiB, 2 MiB each, as it is, for CPL 3 too; devices uncached.
tables_4:
    .quad tables_3 + 7
    .fill 511, 8, 0
tables_3:
    .quad tables_2 + 7
    .quad tables_2 + 0x1007
    .quad tables_2 + 0x2007
    .quad tables_2 + 0x3007
    .fill 508, 8, 0
tables_2:
.set page, 0
.rept 1536
    .quad page * 0x200000 + 0x87
    .set page, page + 1
.endr
.rept 512
    .quad page * 0x200000 + 0x9f
    .set page, page + 1
.endr

.balign 16
idt:
.set vector, 0
.rept 48
    .quad (IMAGE & 0xffff) + 16 * vector + (KERNEL_CODE << 16) + (0x8e00 << 32) + ((IMAGE >> 16) << 48)
    .quad 0
    .set vector, vector + 1
.endr
idt_pointer:
    .word 48 * 16 - 1
    .quad idt
no_idt:
    .word 0
    .quad 0

.balign 16
gdt:
    .quad 0
    .quad 0
    .quad 0x00af9a000000ffff        # 0x10 kernel code
    .quad 0x00cf92000000ffff        # 0x18 kernel data
    .quad 0
    .quad 0x00cff2000000ffff        # 0x28 user data
    .quad 0x00affa000000ffff        # 0x30 user code
    .quad 0
    .fill VCPUS * 2, 8, 0           # 0x40 task states
gdt_end:
gdt_pointer:
    .word gdt_end - gdt - 1
    .quad gdt

.bss
.balign 4096
kernel_stacks:
    .skip VCPUS * KERNEL_STACK
user_stacks:
    .skip VCPUS * USER_STACK
task_states:
    .skip VCPUS * TSS_SIZE
own:
    .skip VCPUS * OWN_SIZE
