/**
 * What a base is. Each kind is a file beside this one, and `bases.ts` lists them. Other code asks the kind of a base and never compares
 * names; test/tidy holds that.
 */
import type { Base } from '../core/environment.ts'
import type { Provider, RootRef } from '../core/provider.ts'
import type { BaseWish, Kit, RecipeBase, Suite } from '../core/recipe.ts'

/** What a server says about its machine. */
export interface Machine {
  readonly arch: string
  /** Debian's release where none is named. */
  readonly suite: string
  /** Whether its own tools can be the base; they can where it is not said. */
  readonly hasHost?: boolean | undefined
  readonly host: readonly { readonly name: string; readonly version: string; readonly directory: string }[]
}

/** The base that a plan stands on. */
export interface Ground {
  readonly base: Base
  /** Of a base that has releases: which. */
  readonly suite?: Suite | undefined
  /** Of `image`: its reference. */
  readonly image?: string | undefined
}

/** A program in packages of the base's own. */
export interface PackagedTool {
  readonly version: string
  readonly packages: readonly string[]
  /** Where its programs are, where that is not on every PATH. */
  readonly directory?: string | undefined
}

/** Where a language comes from when the base has it. `where` is for people and for agentpod.lock. */
export type BaseSource =
  | {
      readonly kind: 'there'
      readonly version: string
      readonly directory: string
      readonly where: string
    }
  | {
      readonly kind: 'packaged'
      /** As far as it is known ahead: a release may have a newer patch. */
      readonly version: string
      readonly tool: PackagedTool
      readonly where: string
    }
  /** Of a base whose tools are not known: its own, in an unknown version. */
  | { readonly kind: 'own'; readonly version: ''; readonly where: string }

/** What the project wants from the system. */
export interface SystemWish {
  readonly packages: readonly string[]
  readonly tools: readonly string[]
}

/** What `ready` works with. */
export interface Making {
  readonly provider: Provider
  /** Debian's release where none is named. */
  readonly suite: string
  onProgress(line: string): void
  /** The digest of a layer with Debian in it, built where it is not. */
  debian(suite: string, kit: Kit): Promise<string>
}

/** A base that sandboxes can begin with. */
export interface Ready {
  readonly root: RootRef
  /** Of `image`: what the reference stands for. */
  readonly digest?: string | undefined
  /** What an image's own settings say. */
  readonly variables?: Readonly<Record<string, string>> | undefined
  readonly user?: string | undefined
  readonly workdir?: string | undefined
}

export interface BaseKind {
  readonly name: Base
  /** Whether an image has to be named for it. */
  readonly takesImage: boolean
  /** Whether a sandbox can begin at once, without a build or a download. */
  readonly isReadyAtOnce: boolean
  /** `unsupported` where the provider has no such base. */
  ready(wish: BaseWish, making: Making): Promise<Ready>
  /** Everything about the base that could make the layers on it other ones. */
  identity(base: RecipeBase, root: RootRef, provider: Provider): unknown
  /** The base of a recipe. `used`: tools of the base that the steps rely on. */
  recipe(ground: Ground, used: Readonly<Record<string, string>>): RecipeBase

  /** Releases to choose from, newest first. */
  readonly releases: readonly Suite[]
  /** Every ground of this kind that a plan may choose by itself, or name in advice. */
  grounds(): readonly Ground[]
  /** `this machine`, `Debian trixie`, `the image debian:12`. */
  called(ground: Ground): string
  /** `on this machine`, `in the image debian:12`. */
  within(ground: Ground): string
  /** What `config explain` adds to the name; undefined where the name says it all. */
  detail(ground: Ground): string | undefined

  /** What installs packages of the system, by the name of its preset; undefined where nothing is installed. */
  readonly packageManager: 'apt' | undefined
  /** Whether its tools and their versions are known before a sandbox runs. */
  readonly hasKnownTools: boolean
  /** Versions of a language that it has, the one to prefer first. */
  languages(ground: Ground, machine: Machine, language: string): readonly BaseSource[]
  /** A server program: `name` is that of the service, `tool` that of the program. */
  server(ground: Ground, machine: Machine, name: string, tool: string): PackagedTool | undefined
  /** A tool that lies on it in one of the versions that `fits` takes. */
  tool(machine: Machine, name: string, fits: (version: string) => boolean): FoundOnBase | undefined
  /** Whether packages of Debian bring a tool: those of its own release, or of any where it installs none. */
  isPackaged(ground: Ground, tool: string): boolean
  /** Whether it has what a package of Debian's would bring. */
  hasPackage(machine: Machine, name: string): boolean
  /** The part of a wish that the base is not known to have and cannot install. */
  lacking(ground: Ground, machine: Machine, wish: SystemWish): SystemWish
  /** What `config explain` says of a package of Debian's. */
  aboutPackage(o: { readonly isThere: boolean; readonly isOptional: boolean }): string
  /** What to do about a service that it does not have and Debian has. */
  readonly otherwise: string
  /** Why agentpod.lock cannot hold it, and what to do instead; undefined where it can. */
  readonly lockRefusal:
    | { readonly reason: string; readonly message: string; readonly hint: string }
    | undefined

  /** Who commands of a project run as when nobody says. */
  readonly user: string
  /** Whether a build may write /etc/profile.d, which sets the PATH of login shells. */
  readonly hasProfile: boolean
  /** Which certificates its programs trust: those of this machine, or those in its own files. */
  readonly trust: 'machine' | 'own'
}

export interface FoundOnBase {
  /** Undefined where it is not known. */
  readonly version: string | undefined
  readonly directory?: string | undefined
}
