/**
 * For tests that take half a minute or more, or that build what another test builds too. `npm test` skips
 * them, and `npm run test:long` runs their files whole.
 */
export const NOT_LONG: string | false =
  process.env['AGENTPOD_LONG'] === '1' ? false : 'takes long: `npm run test:long` runs it'
