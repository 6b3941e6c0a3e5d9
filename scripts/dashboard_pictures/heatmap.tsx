// A heatmap of a classic histogram's buckets, drawn here: Grafana's own heatmap panel is in no npm package.
import { DataFrame, dateTimeFormat, getValueFormat, formattedValueToString, GrafanaTheme2, TimeRange } from '@grafana/data';

type Props = {
  panel: any;
  frames: DataFrame[];
  width: number;
  height: number;
  theme: GrafanaTheme2;
  timeRange: TimeRange;
  marks: { time_ms: number; color: string }[];
};

const LEFT = 62;
const BOTTOM = 24;
const SCALE = ['#fdd0a2', '#fdae6b', '#fd8d3c', '#f16913', '#d94801', '#a63603', '#7f2704'];

// Rows by upper edge, each less the row below it: Prometheus' buckets are cumulative.
function rowsOf(frames: DataFrame[]) {
  const edges = frames
    .map((frame) => ({ le: Number((frame.fields[1].labels?.le ?? '').replace('+Inf', 'Infinity')), frame }))
    .sort((a, b) => a.le - b.le);
  return edges.map(({ le, frame }, i) => ({
    le,
    times: frame.fields[0].values as number[],
    counts: (frame.fields[1].values as (number | null)[]).map((value, t) =>
      value === null ? null : Math.max(0, value - ((i > 0 ? edges[i - 1].frame.fields[1].values[t] : 0) ?? 0))
    ),
  }));
}

export function Heatmap({ panel, frames, width, height, theme, timeRange, marks }: Props) {
  const all = rowsOf(frames);
  const filled = all.map((row) => row.counts.some((count) => (count ?? 0) > 0));
  // rows that are empty all the time, below the lowest and above the highest filled one, are left out
  const rows = all.slice(Math.max(0, filled.indexOf(true) - 1), filled.lastIndexOf(true) + 1);
  const most = Math.max(...rows.flatMap((row) => row.counts.map((count) => count ?? 0)));
  const from = timeRange.from.valueOf();
  const x = (ms: number) => LEFT + ((ms - from) / (timeRange.to.valueOf() - from)) * (width - LEFT);
  const band = (height - BOTTOM) / rows.length;
  const format = getValueFormat(panel.options?.yAxis?.unit ?? panel.fieldConfig?.defaults?.unit ?? 'short');
  const every = Math.max(1, Math.ceil(18 / band));
  const text = { fontSize: 12, fill: theme.colors.text.primary };
  const ticks = Array.from({ length: Math.floor(width / 120) }, (_, i, n = Math.floor(width / 120)) =>
    from + ((i + 0.5) / n) * (timeRange.to.valueOf() - from)
  );
  return (
    <svg width={width} height={height}>
      {rows.map((row, i) => {
        const top = height - BOTTOM - (i + 1) * band;
        const step = row.times[1] - row.times[0];
        return (
          <g key={row.le}>
            {i % every === 0 && (
              <text x={LEFT - 6} y={top + 4} textAnchor="end" {...text}>
                {row.le === Infinity ? '+Inf' : formattedValueToString(format(row.le))}
              </text>
            )}
            {row.counts.map(
              (count, t) =>
                count !== null &&
                count > 0 && (
                  <rect
                    key={t}
                    x={x(row.times[t] - step)}
                    y={top}
                    width={Math.max(1, x(row.times[t]) - x(row.times[t] - step) - 0.5)}
                    height={Math.max(1, band - 0.5)}
                    fill={SCALE[Math.min(SCALE.length - 1, Math.floor(Math.sqrt(count / most) * SCALE.length))]}
                  />
                )
            )}
          </g>
        );
      })}
      {marks.map((mark, i) => (
        <line
          key={i}
          x1={x(mark.time_ms)}
          x2={x(mark.time_ms)}
          y1={0}
          y2={height - BOTTOM}
          stroke={theme.visualization.getColorByName(mark.color)}
          strokeDasharray="5 5"
        />
      ))}
      {ticks.map((ms) => (
        <text key={ms} x={x(ms)} y={height - 6} textAnchor="middle" {...text}>
          {dateTimeFormat(ms, { format: 'HH:mm:ss', timeZone: 'utc' })}
        </text>
      ))}
    </svg>
  );
}
