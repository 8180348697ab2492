/** One verb for every sandbox that is named, one after another. */
import type { Sandbox } from '../client/sandbox.ts'
import type { Parsed } from './args/parse.ts'
import type { CommandContext } from './command.ts'

/** Prints each as it is done; with --json all of them at the end. The first failure ends it. */
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
    if (!parsed.has('json')) terminal.out(`${info.name ?? info.id} is ${info.state}`)
  }
  if (parsed.has('json')) terminal.out(JSON.stringify(done))
  return 0
}
