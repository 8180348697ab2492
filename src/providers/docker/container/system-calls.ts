/**
 * The system calls of native/internal/seccomp by name, for the profile that Docker installs. A test compares
 * them with the Go tables.
 */

/** What ordinary programs need. */
export const ALLOWED: readonly string[] = words(`
accept accept4 adjtimex bind brk cachestat capget capset chdir chroot clock_adjtime clock_getres
clock_gettime clock_nanosleep close close_range connect copy_file_range dup dup3 epoll_create1 epoll_ctl
epoll_pwait epoll_pwait2 eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64
fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr
flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait
futex_waitv futex_wake get_robust_list getcpu getcwd getdents64 getegid geteuid getgid getgroups
getitimer getpeername getpgid getpid getppid getpriority getrandom getresgid getresuid getrlimit
getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr inotify_add_watch
inotify_init1 inotify_rm_watch ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset
landlock_restrict_self lgetxattr linkat listen listxattr llistxattr lremovexattr lseek lsetxattr madvise
map_shadow_stack membarrier memfd_create mincore mkdirat mknodat mlock mlock2 mlockall mmap mprotect
mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv
msgsnd msync munlock munlockall munmap name_to_handle_at nanosleep newfstatat openat openat2 pidfd_open
pidfd_send_signal pipe2 pkey_alloc pkey_free pkey_mprotect ppoll pread64 preadv preadv2 prlimit64
process_madvise process_mrelease pselect6 pwrite64 pwritev pwritev2 read readahead readlinkat readv
recvfrom recvmmsg recvmsg remap_file_pages removexattr renameat renameat2 restart_syscall rseq
rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam
sched_setscheduler sched_yield semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto
set_robust_list set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setpriority setregid
setresgid setresuid setreuid setrlimit setsid setuid setxattr shmat shmctl shmdt shmget shutdown
sigaltstack signalfd4 splice statfs statx symlinkat sync sync_file_range syncfs sysinfo tee tgkill
timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
timerfd_settime times tkill truncate umask uname unlinkat utimensat vmsplice wait4 waitid write writev
`)

/** What only amd64 has. */
export const ALLOWED_AMD64: readonly string[] = words(`
access alarm arch_prctl chmod chown creat dup2 epoll_create epoll_ctl_old epoll_wait epoll_wait_old
eventfd fork futimesat get_thread_area getdents getpgrp inotify_init lchown link lstat mkdir mknod open
pause pipe poll readlink rename rmdir select set_thread_area signalfd stat symlink time unlink utime
utimes vfork
`)

/** Known calls that a payload has no business making: EPERM. */
export const DENIED: readonly string[] = words(`
acct add_key bpf clock_settime delete_module fanotify_init finit_module fsconfig fsmount fsopen fspick
get_mempolicy init_module kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind migrate_pages mount
mount_setattr move_mount move_pages nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd
pivot_root process_vm_readv process_vm_writev ptrace quotactl quotactl_fd reboot request_key
set_mempolicy set_mempolicy_home_node setdomainname sethostname setns settimeofday swapoff swapon syslog
umount2 unshare userfaultfd vhangup
`)

/** What only amd64 has. */
export const DENIED_AMD64: readonly string[] = words(`
ioperm iopl modify_ldt
`)

function words(text: string): string[] {
  return text.trim().split(/\s+/)
}
