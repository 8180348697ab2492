/**
 * Approvals that the user has given to projects, by the hash of the request: a changed request is asked
 * again.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import { AgentPodError } from '../../core/error.ts'
import { makeDirectory } from '../../util/file/make-directory.ts'

const FILE = 'approvals.json'
const schema = z.array(
  z.object({ hash: z.string().regex(/^[0-9a-f]{64}$/), project: z.string(), at: z.string() }),
)

export class Approvals {
  readonly #file: string
  readonly #home: string

  constructor(home: string) {
    this.#home = home
    this.#file = join(home, FILE)
  }

  /** Also bound to the directory: another checkout with the same request is asked again. */
  has(hash: string, project: string): boolean {
    return this.#read().some((one) => one.hash === hash && one.project === project)
  }

  add(hash: string, project: string, at: Date): void {
    makeDirectory(this.#home, 0o700)
    const all = [...this.#read(), { hash, project, at: at.toISOString() }]
    const draft = `${this.#file}.${process.pid}`
    writeFileSync(draft, JSON.stringify(all, null, 2), { mode: 0o600 })
    renameSync(draft, this.#file)
  }

  #read(): z.infer<typeof schema> {
    let text: string
    try {
      text = readFileSync(this.#file, 'utf8')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
    try {
      return schema.parse(JSON.parse(text))
    } catch (error) {
      throw new AgentPodError({
        code: 'data_loss',
        reason: 'approvals.damaged',
        message: `${this.#file} is damaged`,
        hint: 'remove it; projects will ask again',
        cause: error,
      })
    }
  }
}
