/** Connects a process in a sandbox to the user's terminal or pipes. */
import type { Exit, Process } from '../../client/process.ts'
import { safeOutput } from '../output/safe-output.ts'
import type { Terminal } from '../output/terminal.ts'

export interface AttachOptions {
  readonly process: Process
  readonly terminal: Terminal
  readonly isTerminal: boolean
  readonly hasStdin: boolean
  /** Called when an interrupt without effect is repeated. Undefined if the program gets every interrupt. */
  readonly onSecondInterrupt?: (() => void) | undefined
}

const INTERRUPT = 3
/** An interrupt that was only echoed had no effect. */
const ECHO_BYTES = 8
const REPEAT_WITHIN_MS = 5000

/** Forwards output and input until the process ends. Gives its exit code as a shell would. */
export async function attach(o: AttachOptions): Promise<number> {
  using input = o.isTerminal ? rawInput(o) : pipedInput(o)
  // A program that owns the terminal needs every byte.
  const stdout = safeOutput(o.terminal.stdout, o.isTerminal)
  const stderr = safeOutput(o.terminal.stderr, o.isTerminal)
  for await (const { stream, data } of o.process.output()) {
    input.sawOutput(data.length)
    await (stream === 'stderr' ? stderr : stdout).write(data)
  }
  await Promise.all([stdout.end(), stderr.end()])
  return shellCode(o.process.exit)
}

/** The end of a program as a shell's exit code. */
export function shellCode({ exitCode, signal }: Exit): number {
  return signal && exitCode <= 0 ? 128 + (SIGNALS[signal] ?? 0) : exitCode
}

const SIGNALS: Record<string, number> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGABRT: 6,
  SIGKILL: 9,
  SIGSEGV: 11,
  SIGPIPE: 13,
  SIGTERM: 15,
}

interface Input extends Disposable {
  sawOutput(bytes: number): void
}

/** Keys go in one by one, Ctrl-C too: the terminal inside turns it into a signal. */
function rawInput({ process: child, terminal, onSecondInterrupt }: AttachOptions): Input {
  const { stdin, stdout } = terminal
  let interruptedAt = 0
  let outputSince = 0
  let sending = Promise.resolve()
  const onData = (data: Buffer): void => {
    if (data.includes(INTERRUPT)) {
      const isRepeated = performance.now() - interruptedAt < REPEAT_WITHIN_MS && outputSince <= ECHO_BYTES
      if (onSecondInterrupt && isRepeated && interruptedAt > 0) {
        onSecondInterrupt()
        return
      }
      interruptedAt = performance.now()
      outputSince = 0
    }
    sending = sending.then(() => child.write(data)).catch(() => undefined)
  }
  const onResize = (): void => {
    child.resize({ cols: stdout.columns, rows: stdout.rows }).catch(() => undefined)
  }
  stdin.setRawMode(true)
  stdin.on('data', onData)
  stdout.on('resize', onResize)
  return {
    sawOutput: (bytes) => {
      outputSince += bytes
    },
    [Symbol.dispose]() {
      stdin.off('data', onData)
      stdout.off('resize', onResize)
      stdin.setRawMode(false)
      stdin.pause()
    },
  }
}

/** Piped input goes in with back-pressure; Ctrl-C becomes a signal inside. */
function pipedInput({ process: child, terminal, hasStdin, onSecondInterrupt }: AttachOptions): Input {
  let interrupts = 0
  const onInterrupt = (signal: NodeJS.Signals): void => {
    if (onSecondInterrupt && ++interrupts > 1) onSecondInterrupt()
    else child.signal(signal).catch(() => undefined)
  }
  process.on('SIGINT', onInterrupt)
  process.on('SIGTERM', onInterrupt)
  const carry = async (): Promise<void> => {
    for await (const chunk of terminal.stdin as AsyncIterable<Buffer>) await child.write(chunk)
    await child.closeStdin()
  }
  // A command that ends before its input is not a failure.
  if (hasStdin) carry().catch(() => undefined)
  return {
    sawOutput: () => undefined,
    [Symbol.dispose]() {
      process.off('SIGINT', onInterrupt)
      process.off('SIGTERM', onInterrupt)
      terminal.stdin.pause()
    },
  }
}
