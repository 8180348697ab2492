/** What an agent calls a conversation. */

const LONGEST_SESSION = 512

/** SECURITY: it becomes a word of the command that takes the conversation up, and is never an option of it. */
export function isSession(name: string | undefined): name is string {
  return name !== undefined && name.length <= LONGEST_SESSION && /^[^\p{C}\s-][^\p{C}]*$/u.test(name)
}
