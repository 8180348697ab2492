/** Texts to search for, prepared once for all streams. */

import { base64EncodedForms, encodedForms } from './encoded-forms.ts'
import { type Pattern, PatternSearch } from './pattern-search.ts'
import { WrappedBase64Search } from './wrapped-base64.ts'

export class SearchSet {
  /** Every encoded form of the texts. */
  readonly forms: PatternSearch
  /** The texts themselves, for percent-decoded bytes. */
  readonly texts: PatternSearch
  readonly wrapped: WrappedBase64Search

  constructor(texts: readonly string[]) {
    const all = (patterns: (text: string) => Buffer[]): Pattern[] =>
      texts.flatMap((text, at) => patterns(text).map((bytes) => ({ bytes, text: at })))
    this.forms = new PatternSearch(all(encodedForms))
    this.texts = new PatternSearch(all((text) => [Buffer.from(text)]))
    this.wrapped = new WrappedBase64Search(all(base64EncodedForms))
  }

  static of(texts: readonly string[] | SearchSet): SearchSet {
    return texts instanceof SearchSet ? texts : new SearchSet(texts)
  }
}
