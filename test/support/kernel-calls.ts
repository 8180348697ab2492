/**
 * System calls that reach deep into the kernel. Outside, they are made with harmless arguments; the control
 * is that they reach the kernel's own checks.
 */
export const CALLS: readonly (readonly [id: string, name: string, args: string])[] = [
  ['PR-07', 'io_uring_setup', '1, BAD'],
  ['PR-07', 'io_uring_enter', '-1, 0, 0, 0, 0'],
  ['PR-07', 'io_uring_register', '-1, 0, 0, 0'],
  ['PR-09', 'keyctl', '0, -3, 0'],
  ['PR-09', 'add_key', 'BAD, BAD, 0, 0, 0'],
  ['PR-09', 'request_key', 'BAD, BAD, 0, 0'],
  ['PR-11', 'init_module', '0, 0, 0'],
  ['PR-11', 'finit_module', '-1, BAD, 0'],
  ['PR-11', 'delete_module', 'BAD, 0'],
  ['PR-11', 'fsopen', 'BAD, 0'],
  ['PR-11', 'mount', 'BAD, BAD, BAD, 0, 0'],
  ['PR-14', 'umount2', 'BAD, 0'],
  ['PR-14', 'pivot_root', 'BAD, BAD'],
  ['PR-14', 'open_tree', '-100, BAD, 1'],
  ['PR-14', 'move_mount', '-1, BAD, -1, BAD, 0'],
  ['PR-14', 'mount_setattr', '-1, BAD, 0, 0, 0'],
  ['PR-05', 'bpf', '0, BAD, 8'],
  ['PR-05', 'perf_event_open', 'BAD, 0, -1, -1, 0'],
  ['PR-05', 'userfaultfd', '0'],
  ['PR-05', 'migrate_pages', '-1, 0, 0, 0'],
  ['PR-05', 'move_pages', '-1, 0, 0, 0, 0, 0'],
  ['FS-15', 'open_by_handle_at', '-100, BAD, 0'],
  ['PR-12', 'reboot', '0, 0, 0, 0'],
  ['PR-12', 'kexec_load', '0, 1000000, 0, 0'],
  ['PR-12', 'swapon', 'BAD, 0'],
  ['PR-12', 'syslog', '10, 0, 0'],
  ['PR-12', 'quotactl', '-1, 0, 0, 0'],
  ['PR-12', 'acct', 'BAD'],
  ['PR-12', 'sethostname', '0, -1'],
  ['PR-12', 'setdomainname', '0, -1'],
  ['PR-12', 'settimeofday', 'BAD, 0'],
  ['PR-12', 'clock_settime', '0, BAD'],
  ['PR-12', 'fanotify_init', '-1, -1'],
  ['PR-12', 'iopl', '4'],
  ['PR-12', 'ioperm', '0, 0, 1'],
]

/** Tells the answer to each of them. */
export const CALLS_PROGRAM = `
NAMES = [${CALLS.map(([, name, args]) => `('${name}', lambda: call('${name}', ${args}))`).join(', ')}]
tell({name: work() for name, work in NAMES})`
