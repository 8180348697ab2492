/**
 * A base that environments start from. Each kind has a file in this folder, and `bases.ts` lists them. Other
 * code asks the kind of a base and never compares names; test/tidy checks this.
 */
import type { Base } from '../core/environment.ts'
import type { Provider, RootRef } from '../core/provider.ts'
import type { BaseWish, Kit, RecipeBase, Suite } from '../core/recipe.ts'

/** A server's description of its machine. */
export interface Machine {
  readonly arch: string
  /** The Debian release to use when none is named. */
  readonly suite: string
  /** Whether its own tools can be the base; true when left out. */
  readonly hasHost?: boolean | undefined
  readonly host: readonly { readonly name: string; readonly version: string; readonly directory: string }[]
}

/** The base of a plan, with its release or image. */
export interface ResolvedBase {
  readonly base: Base
  /** Of a base that has releases: which. */
  readonly suite?: Suite | undefined
  /** Of `image`: its reference. */
  readonly image?: string | undefined
  /** Of `image`: the Dockerfile that the image is built from. */
  readonly dockerfile?: BaseDockerfile | undefined
}

/** Paths are below the project; an empty context is the project itself. */
export interface BaseDockerfile {
  readonly file: string
  readonly context: string
  readonly target?: string | undefined
  readonly args: Readonly<Record<string, string>>
  /** The only images that it may use. */
  readonly images: readonly string[]
}

/** A program from system packages of the base. */
export interface PackagedTool {
  readonly version: string
  readonly packages: readonly string[]
  /** The directory of its programs, if that is not on every PATH. */
  readonly directory?: string | undefined
}

/**
 * Where a language comes from when the base has it. `where` is shown to people and written to agentpod.lock.
 */
export type BaseSource =
  | {
      readonly kind: 'there'
      readonly version: string
      readonly directory: string
      readonly where: string
    }
  | {
      readonly kind: 'packaged'
      /** As far as it is known in advance: a release may have a newer patch. */
      readonly version: string
      readonly tool: PackagedTool
      readonly where: string
    }
  /** For a base whose tools are not known: its own tool, in an unknown version. */
  | { readonly kind: 'own'; readonly version: ''; readonly where: string }

/** System packages and tools that a project needs. */
export interface SystemWish {
  readonly packages: readonly string[]
  readonly tools: readonly string[]
}

/** What `ready` needs to prepare a base. */
export interface BaseContext {
  readonly provider: Provider
  /** The Debian release to use when none is named. */
  readonly suite: string
  onProgress(line: string): void
  /** The digest of a layer with Debian; builds the layer if it does not exist. */
  debian(suite: string, kit: Kit): Promise<string>
}

/** A base that sandboxes can begin with. */
export interface ReadyBase {
  readonly root: RootRef
  /** For `image`: the digest that the reference resolves to. */
  readonly digest?: string | undefined
  /** Settings from the image's configuration. */
  readonly variables?: Readonly<Record<string, string>> | undefined
  readonly user?: string | undefined
  readonly workdir?: string | undefined
}

/** How messages speak of a base. */
export interface BaseTexts {
  /** `this machine`, `Debian trixie`, `the image debian:12`. */
  label(resolvedBase: ResolvedBase): string
  /** `on this machine`, `in the image debian:12`. */
  locationLabel(resolvedBase: ResolvedBase): string
  /** Shown by `config explain` after the name; undefined if the name is enough. */
  detail(resolvedBase: ResolvedBase): string | undefined
  /** The text of `config explain` for a Debian package. */
  aboutPackage(o: {
    readonly isThere: boolean
    readonly isOptional: boolean
    readonly isAsked: boolean
  }): string
  /** Added to a note about a service that this base lacks and Debian has. */
  readonly missingServiceHint: string
}

/** Tools and packages of a base. */
export interface BaseTools {
  /** The system's package manager, by the name of its preset; undefined if nothing can be installed. */
  readonly packageManager: 'apt' | undefined
  /** One that it may have of its own. Only packages that agentpod.toml names are installed with it. */
  readonly ownPackageManager: 'apt' | undefined
  /** Whether its tools and their versions are known before a sandbox runs. */
  readonly hasKnownTools: boolean
  /** The versions of a language that it has, preferred ones first. */
  languages(resolvedBase: ResolvedBase, machine: Machine, language: string): readonly BaseSource[]
  /** A server program: `name` is that of the service, `tool` that of the program. */
  server(resolvedBase: ResolvedBase, machine: Machine, name: string, tool: string): PackagedTool | undefined
  /** A tool of the base whose version `fits` accepts. */
  tool(machine: Machine, name: string, fits: (version: string) => boolean): FoundOnBase | undefined
  /** Whether Debian packages have a tool: those of its release, or of any release if it installs none. */
  isPackaged(resolvedBase: ResolvedBase, tool: string): boolean
  /** Whether it already has what a Debian package would install. */
  hasPackage(machine: Machine, name: string): boolean
  /** The part of a wish that the base is not known to have and cannot install. */
  lacking(resolvedBase: ResolvedBase, machine: Machine, wish: SystemWish): SystemWish
}

/** Settings of the root file system. */
export interface BaseSystem {
  /** The default user for a project's commands. */
  readonly user: string
  /** Whether a build may write /etc/profile.d, which sets PATH for login shells. */
  readonly hasProfile: boolean
  /** Which certificates its programs trust: those of this machine, or those in its own files. */
  readonly trust: 'machine' | 'own'
}

export interface BaseKind {
  readonly name: Base
  /** Whether an image has to be named for it. */
  readonly takesImage: boolean
  /** Whether a sandbox can begin at once, without a build or a download. */
  readonly isReadyAtOnce: boolean
  /** Throws `unsupported` if the provider has no such base. */
  ready(wish: BaseWish, making: BaseContext): Promise<ReadyBase>
  /** Everything about the base that changes the layers built on it. */
  identity(base: RecipeBase, root: RootRef, provider: Provider): unknown
  /** The base of a recipe. `used`: tools of the base that the steps rely on. */
  recipe(resolvedBase: ResolvedBase, used: Readonly<Record<string, string>>): RecipeBase
  /** Releases to choose from, newest first. */
  readonly releases: readonly Suite[]
  /** Every base of this kind that a plan may choose on its own or suggest. */
  variants(): readonly ResolvedBase[]
  /** Why agentpod.lock cannot pin it, and what to do instead; undefined if it can. */
  readonly lockRefusal:
    | { readonly reason: string; readonly message: string; readonly hint: string }
    | undefined
  readonly texts: BaseTexts
  readonly tools: BaseTools
  readonly system: BaseSystem
}

export interface FoundOnBase {
  /** Undefined where it is not known. */
  readonly version: string | undefined
  readonly directory?: string | undefined
}
