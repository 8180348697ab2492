/** Whether the server in the background is of another version than this command: it goes on as it was when AgentPod is updated. */
import { readFileSync } from 'node:fs'
import type { Home } from '../core/home.ts'

/** What to tell the person; undefined where there is nothing to tell. Reads a file, since a request would cost every command. */
export function otherVersion(home: Home, version: string): string | undefined {
  const server = runningServer(home)
  if (server?.version === undefined || server.version === version) return undefined
  return [
    `note: the server in the background is version ${server.version}, this command is ${version}`,
    'hint: `agentpod server stop` ends it, and the next command starts one of this version; sandboxes live on',
  ].join('\n')
}

function runningServer(home: Home): { version?: string } | undefined {
  try {
    const { pid, version } = JSON.parse(readFileSync(home.serverFile, 'utf8')) as Record<string, unknown>
    // Throws where nobody has this number.
    process.kill(Number(pid), 0)
    return typeof version === 'string' && /^[\w.+-]{1,40}$/.test(version) ? { version } : undefined
  } catch {
    return undefined
  }
}
