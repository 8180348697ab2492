/** Properties that editors read before there was `customizations`. */
import { isObject, type JsonObject } from '../../util/untrusted-json.ts'

/** As the official command moves them: what `customizations.vscode` says itself goes first. */
export function withoutOldProperties(raw: JsonObject): JsonObject {
  const { extensions, settings, devPort, ...rest } = raw
  if (extensions === undefined && settings === undefined && devPort === undefined) return raw
  const customizations = isObject(rest['customizations']) ? rest['customizations'] : {}
  const vscode = isObject(customizations['vscode']) ? customizations['vscode'] : {}
  const said = Array.isArray(vscode['extensions']) ? vscode['extensions'] : []
  const moved = {
    ...vscode,
    ...(Array.isArray(extensions) && { extensions: [...said, ...extensions] }),
    ...(isObject(settings) && {
      settings: { ...settings, ...(isObject(vscode['settings']) && vscode['settings']) },
    }),
    ...(devPort !== undefined && { devPort: vscode['devPort'] ?? devPort }),
  }
  return { ...rest, customizations: { ...customizations, vscode: moved } }
}
