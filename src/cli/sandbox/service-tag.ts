/** How the server tags the processes of services. The tag is in the sandbox's answers. */
const TAG = /^agentpod\.service\.([a-z][a-z0-9_-]{0,62})(?:#\d{1,9})?$/

/**
 * The name of a process's service. Undefined for other processes. A restarted service has a number appended.
 */
export function taggedService(tag: string | undefined): string | undefined {
  return TAG.exec(tag ?? '')?.[1]
}
