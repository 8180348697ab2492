/** What a new sandbox may reach. Most calls say nothing about it, and then nothing is loaded and nothing is sent. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { NetworkWish } from '../config/network-table.ts'
import { NETWORK_OPTIONS } from './args/options.ts'
import type { Parsed } from './args/parse.ts'
import type { CommandContext } from './command.ts'
import type { PreparedNetwork } from './prepare-network.ts'

/** `directory` is the project's, where there is one. */
export async function networkOf(
  ctx: CommandContext,
  parsed: Parsed,
  directory: string | undefined,
  /** What was put together already, along with an environment. */
  known?: NetworkWish | undefined,
): Promise<PreparedNetwork | undefined> {
  const isAsked = Object.keys(NETWORK_OPTIONS).some((option) => parsed.has(option))
  const files = [join(ctx.home.root, 'config.toml'), ...(directory ? [join(directory, 'agentpod.toml')] : [])]
  if (!isAsked && !known && !files.some((file) => existsSync(file))) return undefined
  const { prepareNetwork } = await import('./prepare-network.ts')
  return prepareNetwork(ctx, parsed, directory, known)
}
