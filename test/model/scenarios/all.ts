import { ask } from './ask.ts'
import { edit } from './edit.ts'
import { fix } from './fix.ts'
import { followup } from './followup.ts'
import { history } from './history.ts'
import { hooks } from './hooks.ts'
import { leak } from './leak.ts'
import { loop } from './loop.ts'
import { mcp } from './mcp.ts'
import { nothing } from './nothing.ts'
import { cut, limited, slow, unauthorized } from './refusals.ts'
import type { Scenario } from './scenario.ts'

const SCENARIOS = {
  fix,
  edit,
  nothing,
  ask,
  leak,
  loop,
  unauthorized,
  limited,
  cut,
  slow,
  history,
  hooks,
  followup,
  mcp,
} satisfies Record<string, Scenario>

export type ScenarioName = keyof typeof SCENARIOS

export function isScenario(name: string | undefined): name is ScenarioName {
  return name !== undefined && Object.hasOwn(SCENARIOS, name)
}

export function scenarioOf(name: ScenarioName): Scenario {
  return SCENARIOS[name]
}
