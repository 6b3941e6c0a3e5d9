// A heatmap of a classic histogram's buckets, drawn here: Grafana's own heatmap panel is in no npm package.
import * as schemes from 'd3-scale-chromatic';
import { DataFrame, dateTimeFormat, formattedValueToString, getValueFormat, GrafanaTheme2, TimeRange } from '@grafana/data';

type Props = {
  panel: any;
  frames: DataFrame[];
  width: number;
  height: number;
  theme: GrafanaTheme2;
  timeRange: TimeRange;
  marks: { time_ms: number; color: string }[];
};
type Row = { le: number; times: number[]; counts: (number | null)[] };

const LEFT = 56;
const BOTTOM = 24;
const LABEL_PX = 20;
const TICKS_MS = [5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400].map((seconds) => seconds * 1_000);

// Rows by upper edge, each less the row below it: Prometheus' buckets are cumulative.
function rowsOf(frames: DataFrame[]): Row[] {
  const edges = frames
    .map((frame) => ({ le: Number((frame.fields[1].labels?.le ?? '').replace('+Inf', 'Infinity')), frame }))
    .sort((a, b) => a.le - b.le);
  return edges.map(({ le, frame }, i) => ({
    le,
    times: frame.fields[0].values,
    counts: frame.fields[1].values.map((value: number | null, t: number) =>
      value === null ? null : value - (i > 0 ? edges[i - 1].frame.fields[1].values[t] ?? 0 : 0)
    ),
  }));
}

export function Heatmap({ panel, frames, width, height, theme, timeRange, marks }: Props) {
  const { options = {}, fieldConfig } = panel;
  const least = options.filterValues?.le ?? 1e-9;
  const all = rowsOf(frames);
  const filled = all.map((row) => row.counts.some((count) => (count ?? 0) > least));
  // rows that are empty all the time, below the lowest and above the highest filled one, are left out
  const rows = all.slice(Math.max(0, filled.indexOf(true) - 1), filled.lastIndexOf(true) + 1);
  const most = Math.max(...rows.flatMap((row) => row.counts.map((count) => count ?? 0)));
  const color: (share: number) => string = (schemes as any)[`interpolate${options.color?.scheme ?? 'Oranges'}`];
  const [from, to] = [timeRange.from.valueOf(), timeRange.to.valueOf()];
  const x = (ms: number) => LEFT + ((ms - from) / (to - from)) * (width - LEFT);
  const band = (height - BOTTOM) / rows.length;
  const top = (i: number) => height - BOTTOM - (i + 1) * band;
  const format = getValueFormat(options.yAxis?.unit ?? fieldConfig?.defaults?.unit ?? 'short');
  const every = Math.ceil(LABEL_PX / band);
  const text = { fontSize: 12, fill: theme.colors.text.primary };
  const room = ((to - from) / (width - LEFT)) * 80;
  const tick = TICKS_MS.find((ms) => ms >= room) ?? TICKS_MS[TICKS_MS.length - 1];
  const first = Math.ceil(from / tick) * tick;
  const ticks = Array.from({ length: Math.floor((to - first) / tick) + 1 }, (_, i) => first + i * tick);
  const step = rows[0].times[1] - rows[0].times[0];
  const cell = (row: Row, i: number, count: number | null, t: number) =>
    count !== null &&
    count > least && (
      <rect
        key={`${i} ${t}`}
        x={Math.max(LEFT, x(row.times[t] - step))}
        y={top(i)}
        width={Math.max(1, (step / (to - from)) * (width - LEFT) - 0.5)}
        height={Math.max(1, band - 0.5)}
        fill={color(0.1 + 0.9 * Math.sqrt(count / most))}
      />
    );
  return (
    <svg width={width} height={height}>
      {rows.flatMap((row, i) => row.counts.map((count, t) => cell(row, i, count, t)))}
      {rows.map(
        (row, i) =>
          i % every === 0 && (
            <text key={row.le} x={LEFT - 6} y={top(i) + 8} textAnchor="end" {...text}>
              {row.le === Infinity ? '+Inf' : formattedValueToString(format(row.le))}
            </text>
          )
      )}
      {marks.map(({ time_ms, color }, i) => (
        <line
          key={i}
          {...{ x1: x(time_ms), x2: x(time_ms), y1: 0, y2: height - BOTTOM, strokeDasharray: '5 5' }}
          stroke={theme.visualization.getColorByName(color)}
        />
      ))}
      {ticks.map((ms) => (
        <text key={ms} x={x(ms)} y={height - 6} textAnchor="middle" {...text}>
          {dateTimeFormat(ms, { format: tick < 60_000 ? 'HH:mm:ss' : 'HH:mm', timeZone: 'utc' })}
        </text>
      ))}
    </svg>
  );
}
