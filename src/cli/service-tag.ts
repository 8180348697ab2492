/** How the server marks the processes of services; it is part of what the sandbox answers. */
const TAG = /^agentpod\.service\.([a-z][a-z0-9_-]{0,62})(?:#\d{1,9})?$/

/** The name of the service that a process is; undefined for any other process. One that was started again has a number behind it. */
export function serviceOf(tag: string | undefined): string | undefined {
  return TAG.exec(tag ?? '')?.[1]
}
