/** Reports that the background server has another version than this command, and offers to restart it. */
import { readFileSync, writeFileSync } from 'node:fs'
import type { AgentPod } from '../../client/client.ts'
import type { Home } from '../../core/home.ts'
import { isYes } from '../output/ask.ts'
import type { Terminal } from '../output/terminal.ts'
import type { OtherServer } from './server-version.ts'
import { serverLeft } from './wait-for-shutdown.ts'

const STOP = '`agentpod server stop` ends it, and the next command starts one'

/**
 * Reports the difference and, at a terminal, offers a restart. A refusal is remembered for these two
 * versions.
 */
export async function settleOtherServer(
  home: Home,
  terminal: Terminal,
  other: OtherServer,
  o: { readonly pod: AgentPod; start(): Promise<void> },
): Promise<void> {
  terminal.say(`note: ${other.note}`)
  if (!other.canRestart || !terminal.isInteractive || isDeclined(home, other.key)) {
    const hint = other.canRestart
      ? `${STOP} of this version; sandboxes and runs go on`
      : 'use the command that it came with, or restart it where it was started'
    terminal.say(`hint: ${hint}`)
    return
  }
  if (await isYes(terminal, `restart it now? ${await whatGoesOn(o.pod)}`)) {
    await o.pod.stopServer()
    ;(await serverLeft(home)).release()
    await o.start()
    terminal.say('the server was restarted')
    return
  }
  writeFileSync(home.restartDeclined, other.key, { mode: 0o600 })
  terminal.say(`hint: ${STOP} of this version, at any time`)
}

/** Commands and runs continue in their sandboxes; the server drives a build, so a build ends. */
async function whatGoesOn(pod: AgentPod): Promise<string> {
  const { living } = await pod.server()
  if (living === 0) return 'no sandbox is there'
  const sandboxes =
    living === 1 ? '1 sandbox and what runs in it go on' : `${living} sandboxes and what runs in them go on`
  return `${sandboxes}; a build that is under way ends`
}

function isDeclined(home: Home, key: string): boolean {
  try {
    return readFileSync(home.restartDeclined, 'utf8') === key
  } catch {
    return false
  }
}
