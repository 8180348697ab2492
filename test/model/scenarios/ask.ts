/**
 * Does something that needs a permission, and follows the answer. The prompt may give another command than
 * the usual one: `[[ask npm install]]`.
 */
import { inTurn, type Scenario } from './scenario.ts'

const REFUSED =
  /reject|denied|den(?:y|ies)|refus|not (?:been )?(?:permitted|allowed)|declin|cancel|permission/i

export const ask: Scenario = (talk) => {
  const command = talk.words.length > 0 ? talk.words.join(' ') : 'touch asked.txt'
  return inTurn(
    talk,
    [{ say: 'I need to run a command.', deed: { do: 'run', command, permission: 'require_escalated' } }],
    () => (REFUSED.test(talk.results[0] ?? '') ? 'I was not allowed to run it.' : 'I was allowed to run it.'),
  )
}
