import { listAt, objectAt, stringAt, valueAt } from '../../../util/untrusted-json.ts'
/** Settings of a session of the Agent Client Protocol: whether it asks, and its model. */

/** A request that changes a setting. If it `must` succeed, its failure ends the turn. */
export interface Setting {
  readonly method: string
  readonly params: Readonly<Record<string, string>>
  readonly must: boolean
  /** For messages. */
  readonly what: string
}

export interface SettingWishes {
  readonly asks: boolean
  readonly model: string | undefined
  /** The first of these that the agent offers is set. Empty: nothing to set. */
  readonly modes: readonly string[]
  /** Other options, by id. */
  readonly options: Readonly<Record<string, string>>
  /** Whether it accepts models that it does not offer. */
  readonly takesAnyModel: boolean
}

export type WantedSettings = { readonly settings: readonly Setting[] } | { readonly failure: string }

/** `opened` is the answer to `session/new` or a similar request. */
export function settingsFor(opened: unknown, wishes: SettingWishes): WantedSettings {
  const model = modelSetting(opened, wishes)
  const mode = modeSetting(opened, wishes)
  if (mode && 'failure' in mode) return mode
  // The model comes first: with some agents the modes depend on it.
  return { settings: [...(model ? [model] : []), ...(mode ? [mode] : []), ...optionSettings(opened, wishes)] }
}

function modeSetting(
  opened: unknown,
  { asks, modes }: SettingWishes,
): Setting | { readonly failure: string } | undefined {
  if (modes.length === 0) return undefined
  const offered = listAt(opened, 'modes', 'availableModes').flatMap((one) => stringAt(one, 'id') ?? [])
  const wanted = modes.find((one) => offered.includes(one))
  if (wanted !== undefined) {
    if (stringAt(opened, 'modes', 'currentModeId') === wanted) return undefined
    return { method: 'session/set_mode', params: { modeId: wanted }, must: asks, what: `mode ${wanted}` }
  }
  const option = optionOf(opened, 'mode')
  const value = modes.find((one) => option?.values.some((offer) => offer.value === one))
  if (option && value !== undefined)
    return option.current === value ? undefined : setOption(option.id, value, asks, `mode ${value}`)
  // SECURITY: an agent that must ask but cannot be set to ask must not continue.
  return asks ? { failure: 'it offers no mode in which it asks before it acts' } : undefined
}

function modelSetting(opened: unknown, { model, takesAnyModel }: SettingWishes): Setting | undefined {
  if (model === undefined) return undefined
  const option = optionOf(opened, 'model')
  const value = option && sameModel(option.values, model)
  if (option && value !== undefined)
    return option.current === value ? undefined : setOption(option.id, value, true, `model ${model}`)
  const models = listAt(opened, 'models', 'availableModels')
    .slice(0, 1000)
    .map((one) => ({ value: stringAt(one, 'modelId') ?? '', name: stringAt(one, 'name') ?? '' }))
  const modelId = sameModel(models, model)
  if (modelId !== undefined) {
    if (stringAt(opened, 'models', 'currentModelId') === modelId) return undefined
    return { method: 'session/set_model', params: { modelId }, must: true, what: `model ${model}` }
  }
  // Otherwise its files or variables set it already.
  return takesAnyModel && option ? setOption(option.id, model, true, `model ${model}`) : undefined
}

interface Offer {
  readonly value: string
  readonly name: string
}

/** By its value, its name, or the part of its value after the provider. */
function sameModel(offers: readonly Offer[], model: string): string | undefined {
  const found =
    offers.find(({ value }) => value === model) ??
    offers.find(({ name }) => name === model) ??
    offers.find(({ value }) => value.endsWith(`/${model}`))
  return found?.value
}

function optionSettings(opened: unknown, { asks, options }: SettingWishes): Setting[] {
  return Object.entries(options).flatMap(([id, value]) => {
    const option = optionNamed(opened, (one) => stringAt(one, 'id') === id)
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

/** By its id, or else by its category, which several options may share. */
function optionOf(opened: unknown, name: string): Option | undefined {
  return (
    optionNamed(opened, (one) => stringAt(one, 'id') === name) ??
    optionNamed(opened, (one) => stringAt(one, 'category') === name)
  )
}

function optionNamed(opened: unknown, isIt: (one: unknown) => boolean): Option | undefined {
  const found = objectAt({ found: listAt(opened, 'configOptions').slice(0, 100).find(isIt) }, 'found')
  const id = stringAt(found, 'id')
  if (id === undefined) return undefined
  const offers = listAt(found, 'options').slice(0, 1000)
  // Options may come in groups.
  const flat = offers.flatMap((one) =>
    valueAt(one, 'options') === undefined ? [one] : listAt(one, 'options'),
  )
  const values = flat.map((one) => ({
    value: stringAt(one, 'value') ?? '',
    name: stringAt(one, 'name') ?? '',
  }))
  return { id, current: stringAt(found, 'currentValue'), values: values.filter(({ value }) => value !== '') }
}
