/**
 * The authorization header that names a user inside a sandbox. It has no password: the token is a separate
 * header.
 */
export function basicAuthorization(user: string): string {
  return `Basic ${Buffer.from(`${user}:`).toString('base64')}`
}
