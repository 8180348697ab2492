/** Checks the session id of an agent's conversation. */

const LONGEST_SESSION = 512

/**
 * SECURITY: the id becomes an argument of the command that resumes the conversation, and must never be an
 * option.
 */
export function isSession(name: string | undefined): name is string {
  return name !== undefined && name.length <= LONGEST_SESSION && /^[^\p{C}\s-][^\p{C}]*$/u.test(name)
}
