import type { ComponentChildren } from 'preact';

export interface Column<Row> {
  name: string;
  title: string;
  numeric?: boolean;
  cell: (row: Row) => ComponentChildren;
}

interface Props<Row> {
  /** Its contents, for screen readers. */
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string | number;
}

/** For lists of a few hundred; longer ones need VirtualList. Wide ones scroll on their own. */
export function Table<Row>({ caption, columns, rows, keyOf }: Props<Row>) {
  return (
    <div class="table" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="sr-only">{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ name, title, numeric }) => (
              <th key={name} scope="col" class={numeric ? 'numeric' : undefined}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ name, numeric, cell }) => (
                <td key={name} class={numeric ? 'numeric' : undefined}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
