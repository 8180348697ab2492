/** Which rule of a sandbox's policy decides about an address, and why. */
import { invalid } from '../../core/error.ts'
import { hostsOf } from '../../core/group/group.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { decide, type NetworkDecision } from '../../policy/decide.ts'
import { explain } from '../../policy/explain.ts'
import { hostRefused, readHostName } from '../../policy/host-name.ts'
import { describeRule } from '../../policy/rule.ts'
import type { Context } from '../context.ts'
import { sandboxPolicy } from './egress-link.ts'

export interface NetworkExplanation {
  readonly allowed: boolean
  readonly reason: string
  readonly rule: string | undefined
  readonly message: string
  readonly hint: string
  /** The whole explanation as text for a person. */
  readonly text: string
}

export function explainNetwork(
  ctx: Context,
  sandbox: Sandbox,
  asked: { readonly url: string; readonly method?: string | undefined },
): NetworkExplanation {
  const target = readTarget(asked.url)
  const secrets = Object.keys(sandbox.link?.placeholders ?? {}).flatMap((name) => {
    const stored = ctx.network?.secrets.get(sandbox.owner, name)
    return stored ? [{ name, slot: stored.slot }] : []
  })
  const group = ctx.groupRegistry.ofSandbox(sandbox.id)
  const policy = {
    ...sandboxPolicy(sandbox.spec.network, secrets),
    ...(group && { members: hostsOf(group) }),
  }
  const question = { ...target, ...(target.path !== undefined && { method: asked.method ?? 'GET' }) }
  const decision: NetworkDecision = decide(policy, question)
  return {
    allowed: decision.allowed,
    reason: decision.reason,
    rule: decision.rule && `${describeRule(decision.rule)} (${decision.rule.source})`,
    message: decision.message,
    hint: decision.hint,
    text: explain(policy, question),
  }
}

/** Reads `https://host:port/path`, or `host:port` for a connection without a known path. */
function readTarget(text: string): { host: never; port: number; path?: string } {
  const match = /^(?:(https?):\/\/)?([^/:?#@\s]+)(?::(\d{1,5}))?([/?].*)?$/i.exec(text)
  const [, scheme, name = '', digits, path] = match ?? []
  const reading = readHostName(name)
  if (!match)
    throw invalid('network.url', `${JSON.stringify(text)} is not an address like https://example.com/path`)
  if (!reading.ok) throw hostRefused(reading.refusal)
  const port = digits === undefined ? (scheme?.toLowerCase() === 'http' ? 80 : 443) : Number(digits)
  if (port < 1 || port > 65_535) throw invalid('network.url', 'a port is a number from 1 to 65535')
  const target = path?.replace(/#.*$/s, '')
  return {
    host: reading.host as never,
    port,
    ...(scheme !== undefined && {
      path: target === undefined ? '/' : target.startsWith('/') ? target : `/${target}`,
    }),
  }
}
