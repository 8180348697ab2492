/** XML files of a project as data: elements alone, every one of them text or a table. */
import { XMLParser } from 'fast-xml-parser'
import type { FileTree } from '../tree.ts'
import { isTable, type Read, readingOf, type Table } from './reading.ts'

const MOST_LEVELS = 100

/** SECURITY: entities stay as they are written, so that none can stand for more than it is or for another file. */
export function readXml(tree: FileTree, path: string): Read | undefined {
  return tree.readAs(path, xmlOf)
}

export function xmlOf(raw: string): Read {
  return readingOf(raw, (text) => {
    const parser = new XMLParser({
      processEntities: false,
      ignoreAttributes: false,
      attributeNamePrefix: '@',
      parseTagValue: false,
      parseAttributeValue: false,
      removeNSPrefix: true,
      ignoreDeclaration: true,
      ignorePiTags: true,
      maxNestedTags: MOST_LEVELS,
    })
    const data: unknown = parser.parse(text)
    if (!isTable(data) || Object.keys(data).length === 0) throw new SyntaxError('it holds no element')
    return data
  })
}

/** An element that may be there several times, which XML does not tell from one. */
export function many(value: unknown): readonly unknown[] {
  if (value === undefined || value === '') return []
  return Array.isArray(value) ? value : [value]
}

export function manyTables(value: unknown): readonly Table[] {
  return many(value).filter(isTable)
}

/** The text of an element, with attributes or without. */
export function elementText(value: unknown): string | undefined {
  const text = isTable(value) && Object.hasOwn(value, '#text') ? value['#text'] : value
  return typeof text === 'string' && text.trim() !== '' ? text.trim() : undefined
}
