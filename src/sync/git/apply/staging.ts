/**
 * A directory on the working tree's disk where files are written completely before they are renamed into
 * place.
 */
import { mkdirSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AgentPodError } from '../../../core/error.ts'
import { randomWord, systemRandom } from '../../../util/random.ts'
import { PARTIAL_MARK } from '../../two-way/path-rules.ts'
import type { GitOptions } from '../plumbing/git.ts'
import { objectInfo, readObjects } from '../plumbing/objects.ts'
import type { ObjectId, Repository } from '../plumbing/repository.ts'
import { type ApplyStep, LARGEST_FILE } from './apply-plan.ts'

const MARK = 'agentpod-apply-'
const BATCH_BYTES = 64 * 1024 * 1024

/** Removes what a killed process left behind. */
export class Staging implements Disposable {
  readonly directory: string

  constructor({ root, gitDir }: Repository) {
    const isSameDisk = statSync(root).dev === statSync(gitDir).dev
    const [where, mark] = isSameDisk ? [gitDir, MARK] : [root, `${PARTIAL_MARK}${MARK}`]
    for (const name of readdirSync(where))
      if (name.startsWith(mark)) rmSync(join(where, name), { recursive: true, force: true })
    this.directory = join(where, `${mark}${randomWord(systemRandom, 12)}`)
    mkdirSync(this.directory, { mode: 0o700 })
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true })
  }

  /** Writes the files of all steps that have one. Only one batch of objects is in memory at a time. */
  async write(o: GitOptions, steps: readonly ApplyStep[]): Promise<ReadonlyMap<ApplyStep, string>> {
    const ready = new Map<ApplyStep, string>()
    const idOf = ({ content }: ApplyStep): ObjectId | undefined =>
      typeof content === 'string' ? content : undefined
    const sizes = await objectInfo(
      o,
      steps.flatMap((step) => idOf(step) || []),
    )
    for (const batch of batches(steps, (step) => sizes.get(idOf(step) ?? '')?.sizeBytes ?? 0)) {
      const contents = await readObjects(
        o,
        batch.flatMap((step) => idOf(step) || []),
        {
          type: 'blob',
          mostBytes: LARGEST_FILE,
          mostBytesInAll: BATCH_BYTES + LARGEST_FILE,
        },
      )
      for (const step of batch) {
        if (step.kind === 'remove') continue
        const content = typeof step.content === 'string' ? contents.get(step.content) : step.content
        if (!content) throw missing(step.path)
        ready.set(step, this.#file(step, content, ready.size))
      }
    }
    return ready
  }

  #file({ kind, mode, hasReturns }: ApplyStep, content: Buffer, number: number): string {
    const path = join(this.directory, String(number))
    if (kind === 'link') symlinkSync(content, path)
    else writeFileSync(path, hasReturns ? withReturns(content) : content, { flag: 'wx', mode })
    return path
  }
}

function* batches(steps: readonly ApplyStep[], sizeOf: (step: ApplyStep) => number): Generator<ApplyStep[]> {
  let [batch, bytes]: [ApplyStep[], number] = [[], 0]
  for (const step of steps) {
    batch.push(step)
    bytes += sizeOf(step)
    if (bytes < BATCH_BYTES) continue
    yield batch
    ;[batch, bytes] = [[], 0]
  }
  if (batch.length > 0) yield batch
}

function withReturns(content: Buffer): Buffer {
  return Buffer.from(content.toString('latin1').replaceAll(/\r?\n/g, '\r\n'), 'latin1')
}

function missing(path: string): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'apply.missing',
    message: `the content of ${JSON.stringify(path)} is missing`,
    hint: 'nothing was changed; git fsck shows what else is missing',
  })
}
