/** Applies an operation to each named sandbox, one after another. */
import type { Sandbox } from '../../client/sandbox.ts'
import type { Parsed } from '../args/parse.ts'
import type { CommandContext } from '../command.ts'
import { size } from '../output/units.ts'

/** Prints each sandbox when it is done; with --json all at the end. The first failure stops it. */
export async function forEach(
  { client, terminal }: CommandContext,
  parsed: Parsed,
  verb: (sandbox: Sandbox) => Promise<Sandbox>,
): Promise<number> {
  const pod = await client()
  const done: Sandbox['info'][] = []
  for (const ref of parsed.words) {
    const { info } = await verb(await pod.get(ref))
    done.push(info)
    if (!parsed.has('json')) terminal.out(`${info.name ?? info.id} is ${info.state}${placeOf(info)}`)
  }
  if (parsed.has('json')) terminal.out(JSON.stringify(done))
  return 0
}

function placeOf({ savedBytes }: Sandbox['info']): string {
  return savedBytes === undefined ? '' : ` on disk (${size(savedBytes)} of memory)`
}
