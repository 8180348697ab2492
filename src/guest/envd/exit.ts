/** The end of a process in envd's form, which follows Go's os.ProcessState. */
import type { ProcessExit } from '../../core/guest-process.ts'

const SIGNALS: Readonly<Record<string, string>> = {
  SIGHUP: 'hangup',
  SIGINT: 'interrupt',
  SIGQUIT: 'quit',
  SIGILL: 'illegal instruction',
  SIGTRAP: 'trace/breakpoint trap',
  SIGABRT: 'aborted',
  SIGBUS: 'bus error',
  SIGFPE: 'floating point exception',
  SIGKILL: 'killed',
  SIGUSR1: 'user defined signal 1',
  SIGSEGV: 'segmentation fault',
  SIGUSR2: 'user defined signal 2',
  SIGPIPE: 'broken pipe',
  SIGALRM: 'alarm clock',
  SIGTERM: 'terminated',
  SIGSTKFLT: 'stack fault',
  SIGXCPU: 'CPU time limit exceeded',
  SIGXFSZ: 'file size limit exceeded',
  SIGVTALRM: 'virtual timer expired',
  SIGPROF: 'profiling timer expired',
  SIGIO: 'I/O possible',
  SIGPWR: 'power failure',
  SIGSYS: 'bad system call',
}

/** Zero values are left out, as in proto3 JSON. */
export function endOf({ exitCode, signal, oomKilled }: ProcessExit): object {
  const status = signal ? `signal: ${SIGNALS[signal] ?? signal}` : `exit status ${exitCode}`
  return {
    ...(exitCode !== 0 && { exitCode }),
    ...(!signal && { exited: true }),
    status,
    ...(exitCode !== 0 && { error: status }),
    ...(signal && { signal }),
    ...(oomKilled && { oomKilled }),
  }
}
