/** Writes one new file: `[[edit notes.txt]]`. */
import { inTurn, type Scenario } from './scenario.ts'

export const EDIT_CONTENT = 'Written by the model of the tests.\n'

export const edit: Scenario = (talk) => {
  const [path = 'notes.txt'] = talk.words
  const tasks = [{ say: `I write ${path}.`, deed: { do: 'write', path, content: EDIT_CONTENT } as const }]
  return inTurn(talk, tasks, () => `I wrote ${path}.`)
}
