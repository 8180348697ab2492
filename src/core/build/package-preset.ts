/** Package managers whose registries a build step can name, instead of their hosts. */
export const PACKAGE_PRESETS = ['npm', 'pip', 'apt', 'cargo', 'go', 'maven'] as const
export type PackagePreset = (typeof PACKAGE_PRESETS)[number]
