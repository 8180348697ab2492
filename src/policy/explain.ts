/** The text of `agentpod policy explain`. */
import { type DecisionInput, decide, type NetworkPolicy } from './decide.ts'
import { describeRule, matchesHost, type Rule } from './rule.ts'

/** The verdict, the reason, what to do, and other rules for this host. */
export function explain(policy: NetworkPolicy, asked: DecisionInput): string {
  const decision = decide(policy, asked)
  const what = [asked.method, `${asked.host}:${asked.port}`].filter((part) => part !== undefined).join(' ')
  const others = [
    ...policy.denied.filter((rule) => isOther(rule)).map((rule) => `  denies ${line(rule)}`),
    ...policy.rules.filter((rule) => isOther(rule)).map((rule) => `  allows ${line(rule)}`),
  ]
  return [
    `${decision.allowed ? 'allowed' : 'refused'}: ${what}`,
    `  ${decision.message} [${decision.reason}]`,
    `  ${decision.hint}`,
    ...(others.length > 0 ? ['other rules for this host:', ...others.sort()] : []),
  ].join('\n')

  function isOther(rule: Rule): boolean {
    return rule !== decision.rule && matchesHost(rule.host, asked.host)
  }
}

function line(rule: Rule): string {
  return `${describeRule(rule)} (${rule.source})`
}
