/** What a session of the Agent Client Protocol can be set to, and what we set it to: how it asks, and its model. */
import { at, listAt, objectAt, textAt } from './json.ts'

/** A request that sets something. Where it `must` succeed, its failure is the end. */
export interface Setting {
  readonly method: string
  readonly params: Readonly<Record<string, string>>
  readonly must: boolean
  /** For people. */
  readonly what: string
}

export interface SettingWishes {
  readonly asks: boolean
  readonly model: string | undefined
  /** The first of these that it offers is taken. Empty: there is nothing to set. */
  readonly modes: readonly string[]
  /** Other options by their ids. */
  readonly options: Readonly<Record<string, string>>
  /** Whether it takes models that it does not offer. */
  readonly takesAnyModel: boolean
}

export type Wanted = { readonly settings: readonly Setting[] } | { readonly failure: string }

/** `opened`: what `session/new` and its like answered. */
export function settingsFor(opened: unknown, wishes: SettingWishes): Wanted {
  const model = modelSetting(opened, wishes)
  const mode = modeSetting(opened, wishes)
  if (mode && 'failure' in mode) return mode
  // The model comes first: with some agents the modes that there are depend on it.
  return { settings: [...(model ? [model] : []), ...(mode ? [mode] : []), ...optionSettings(opened, wishes)] }
}

function modeSetting(
  opened: unknown,
  { asks, modes }: SettingWishes,
): Setting | { readonly failure: string } | undefined {
  if (modes.length === 0) return undefined
  const offered = listAt(opened, 'modes', 'availableModes').flatMap((one) => textAt(one, 'id') ?? [])
  const wanted = modes.find((one) => offered.includes(one))
  if (wanted !== undefined) {
    if (textAt(opened, 'modes', 'currentModeId') === wanted) return undefined
    return { method: 'session/set_mode', params: { modeId: wanted }, must: asks, what: `mode ${wanted}` }
  }
  const option = optionOf(opened, 'mode')
  const value = modes.find((one) => option?.values.some((offer) => offer.value === one))
  if (option && value !== undefined)
    return option.current === value ? undefined : setOption(option.id, value, asks, `mode ${value}`)
  // SECURITY: an agent that was to ask and cannot be told so must not go on unasked.
  return asks ? { failure: 'it has no mode in which it asks before it acts' } : undefined
}

function modelSetting(opened: unknown, { model, takesAnyModel }: SettingWishes): Setting | undefined {
  if (model === undefined) return undefined
  const option = optionOf(opened, 'model')
  const value = option && sameModel(option.values, model)
  if (option && value !== undefined)
    return option.current === value ? undefined : setOption(option.id, value, true, `model ${model}`)
  const models = listAt(opened, 'models', 'availableModels')
    .slice(0, 1000)
    .map((one) => ({ value: textAt(one, 'modelId') ?? '', name: textAt(one, 'name') ?? '' }))
  const modelId = sameModel(models, model)
  if (modelId !== undefined) {
    if (textAt(opened, 'models', 'currentModelId') === modelId) return undefined
    return { method: 'session/set_model', params: { modelId }, must: true, what: `model ${model}` }
  }
  // Otherwise its files or variables have said so already.
  return takesAnyModel && option ? setOption(option.id, model, true, `model ${model}`) : undefined
}

interface Offer {
  readonly value: string
  readonly name: string
}

/** By its value, by its name, or by the part of its value that follows the provider's. */
function sameModel(offers: readonly Offer[], model: string): string | undefined {
  const found =
    offers.find(({ value }) => value === model) ??
    offers.find(({ name }) => name === model) ??
    offers.find(({ value }) => value.endsWith(`/${model}`))
  return found?.value
}

function optionSettings(opened: unknown, { asks, options }: SettingWishes): Setting[] {
  return Object.entries(options).flatMap(([id, value]) => {
    const option = optionNamed(opened, (one) => textAt(one, 'id') === id)
    return option && option.current !== value ? [setOption(id, value, asks, `${id} ${value}`)] : []
  })
}

function setOption(configId: string, value: string, must: boolean, what: string): Setting {
  return { method: 'session/set_config_option', params: { configId, value }, must, what }
}

interface Option {
  readonly id: string
  readonly current: string | undefined
  readonly values: readonly Offer[]
}

/** By its id, or else by its category, of which there may be several. */
function optionOf(opened: unknown, name: string): Option | undefined {
  return (
    optionNamed(opened, (one) => textAt(one, 'id') === name) ??
    optionNamed(opened, (one) => textAt(one, 'category') === name)
  )
}

function optionNamed(opened: unknown, isIt: (one: unknown) => boolean): Option | undefined {
  const found = objectAt({ found: listAt(opened, 'configOptions').slice(0, 100).find(isIt) }, 'found')
  const id = textAt(found, 'id')
  if (id === undefined) return undefined
  const offers = listAt(found, 'options').slice(0, 1000)
  // Options may come in groups.
  const flat = offers.flatMap((one) => (at(one, 'options') === undefined ? [one] : listAt(one, 'options')))
  const values = flat.map((one) => ({ value: textAt(one, 'value') ?? '', name: textAt(one, 'name') ?? '' }))
  return { id, current: textAt(found, 'currentValue'), values: values.filter(({ value }) => value !== '') }
}
