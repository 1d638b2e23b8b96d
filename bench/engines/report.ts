/** What compareEngines() measured, as a table and as a chart. */
import { init } from 'echarts';
import type { Row } from './engines.ts';
import { SIDES } from './sides.ts';

export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 512 * 1024 ? `${bytes / 1024} KiB` : '1 MiB';
}

const COLUMNS: readonly [title: string, width: number, text: (row: Row) => string][] = [
  ['network', 8, (row) => row.network],
  ['', 7, (row) => row.what],
  ['batch', 7, (row) => sizeText(row.batchBytes)],
  ['conn.', 5, (row) => String(row.connections)],
  ['', 15, (row) => row.side],
  ['answers/s', 9, (row) => row.answersPerSecond.toFixed(0)],
  ['MiB/s', 8, (row) => row.mebibytesPerSecond.toFixed(row.mebibytesPerSecond < 100 ? 1 : 0)],
  ['CPU s/GiB', 9, (row) => row.cpuSecondsPerGibibyte.toFixed(2)],
  ['of bare', 7, (row) => row.toBare[1].toFixed(2)],
  ['[min..max]', 12, ({ toBare: [min, , max] }) => `${min.toFixed(2)}..${max.toFixed(2)}`],
  ['per CPU s', 9, (row) => row.toBarePerCpu[1].toFixed(2)],
  ['p50 us', 8, (row) => row.p50.toFixed(0)],
  ['p99 us', 8, (row) => row.p99.toFixed(0)],
  ['p99.9 us', 8, (row) => row.p999.toFixed(0)],
  ['sendfile', 8, ({ bySendfile }) => (bySendfile === undefined ? '' : `${(100 * bySendfile).toFixed(0)} %`)],
  ['copy', 6, ({ byCopy }) => (byCopy === undefined ? '' : `${(100 * byCopy).toFixed(0)} %`)],
];

export const HEADER = COLUMNS.map(([title, width]) => title.padStart(width)).join(' ');

export function tableLine(row: Row): string {
  return COLUMNS.map(([, width, text]) => text(row).padStart(width)).join(' ');
}

const WIDTH = 1100;
const GRID_HEIGHT = 260;
const MARGIN = 110;

/** Each side's bytes per second of processor over the bare loop's, one diagram for each network and direction. */
export function chart(rows: readonly Row[]): string {
  const panels = [...new Set(rows.map(({ network, what }) => `${what}, ${network}`))];
  const ours = SIDES.filter((side) => side !== 'bare C loop');
  const height = panels.length * (GRID_HEIGHT + MARGIN) + 60;
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height });
  const of = (panel: string) => rows.filter(({ network, what }) => `${what}, ${network}` === panel);
  const labels = (panel: string) => [
    ...new Set(
      of(panel).map(({ batchBytes, connections }) => `${sizeText(batchBytes)}\n${connections} conn.`),
    ),
  ];
  const top = (i: number) => 70 + i * (GRID_HEIGHT + MARGIN);
  chart.setOption({
    animation: false,
    legend: { data: [...ours], top: 8 },
    title: panels.map((panel, i) => ({
      text: `${panel}: bytes per second of processor, bare C loop = 1`,
      top: top(i) - 28,
      left: 60,
      textStyle: { fontSize: 13 },
    })),
    grid: panels.map((_, i) => ({ top: top(i), height: GRID_HEIGHT, left: 60, right: 20 })),
    xAxis: panels.map((panel, i) => ({
      type: 'category',
      gridIndex: i,
      data: labels(panel),
      axisLabel: { interval: 0 },
    })),
    yAxis: panels.map((_, i) => ({ type: 'value', gridIndex: i, min: 0 })),
    series: panels.flatMap((panel, i) =>
      ours.map((side, at) => ({
        name: side,
        type: 'bar' as const,
        xAxisIndex: i,
        yAxisIndex: i,
        color: ['#2f6db5', '#e08a2c', '#4f9d5d'][at],
        data: of(panel)
          .filter((row) => row.side === side)
          .map(({ toBarePerCpu }) => Number(toBarePerCpu[1].toFixed(3))),
      })),
    ),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
