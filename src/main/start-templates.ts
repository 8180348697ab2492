/** Starts what builds templates of E2B's API. */
import { interpreterTemplate } from '../api/e2b/interpreter/interpreter-template.ts'
import { TemplateFiles } from '../api/e2b/templates/template-files.ts'
import { Templates } from '../api/e2b/templates/templates.ts'
import type { Engine } from '../engine/engine.ts'
import { templateStore } from '../store/templates.ts'
import { systemClock } from '../util/clock.ts'
import { systemRandom } from '../util/random.ts'
import type { ServerSetup, ServerState } from './server-setup.ts'
import type { StartedBuilds } from './start-work.ts'

export interface StartedTemplates {
  readonly templates: Templates
  readonly files: TemplateFiles
}

export function startTemplates(
  { options, home, log, scope }: ServerSetup,
  { state }: ServerState,
  { engine, builder, files: inputs, presets }: StartedBuilds & { readonly engine: Engine },
): StartedTemplates {
  const common = { clock: systemClock, random: systemRandom }
  const files = new TemplateFiles({ directory: home.templateFiles, ...common })
  const templates = new Templates({
    engine,
    builder,
    inputs,
    files,
    presets,
    store: templateStore(state),
    log,
    ...common,
    builtIn: interpreterTemplate({ directory: options.programs.interpreter, presets }),
    readyMs: options.limits?.templateReadyMs,
  })
  templates.open()
  scope.defer(() => templates.close())
  return { templates, files }
}
