// From Prometheus' answers to Grafana's data frames, as Grafana's Prometheus data source makes them.
import {
  createDataFrame,
  DataFrame,
  FieldConfigSource,
  FieldType,
  identityOverrideProcessor,
  Registry,
} from '@grafana/data';

type Series = { metric: Record<string, string>; values?: [number, string][]; value?: [number, string] };
export type Result = {
  ref_id: string;
  expr: string;
  legend: string;
  table: boolean;
  // null: an instant query
  step_s: number | null;
  start_s: number;
  end_s: number;
  series: Series[];
};

const STANDARD = [
  'unit', 'min', 'max', 'fieldMinMax', 'decimals', 'displayName', 'color', 'noValue', 'links', 'actions', 'mappings',
  'thresholds', 'filterable', 'description',
];

// What a panel's plugin fills in where the JSON is silent.
const CUSTOM_DEFAULTS: Record<string, Record<string, unknown>> = {
  timeseries: {
    drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, gradientMode: 'none', showPoints: 'auto',
    pointSize: 5, spanNulls: false, axisPlacement: 'auto', axisBorderShow: false, scaleDistribution: { type: 'linear' },
    thresholdsStyle: { mode: 'off' }, stacking: { mode: 'none', group: 'A' },
    hideFrom: { legend: false, tooltip: false, viz: false },
  },
  table: { align: 'auto', inspect: false, cellOptions: { type: 'auto' } },
};

const COLOR_DEFAULTS: Record<string, string> = { timeseries: 'palette-classic' };
const THRESHOLDS = { mode: 'absolute', steps: [{ color: 'green', value: -Infinity }, { color: 'red', value: 80 }] };

const number = (text: string) => {
  const value = text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : Number(text);
  return Number.isNaN(value) ? null : value;
};

function legend(result: Result, labels: Record<string, string>): string | undefined {
  if (result.legend === '__auto' || result.legend === '') {
    const { __name__: name, ...rest } = labels;
    if (result.legend === '__auto') {
      return Object.keys(labels).length ? undefined : result.expr;
    }
    const pairs = Object.entries(rest).map(([key, value]) => `${key}="${value}"`);
    return pairs.length ? `${name ?? ''}{${pairs.join(', ')}}` : name ?? result.expr;
  }
  return result.legend.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, key) => labels[key] ?? key);
}

function graphFrames(result: Result): DataFrame[] {
  return result.series.map(({ metric, values, value }) => {
    const found = new Map((values ?? [value!]).map(([at, text]) => [Math.round(at * 1000), number(text)]));
    let times = [...found.keys()];
    if (result.step_s !== null) {
      // every step has a point; where there is no sample it is null, so that a line is not drawn over a gap
      const step = result.step_s * 1000;
      const first = result.start_s * 1000;
      times = Array.from({ length: Math.floor((result.end_s * 1000 - first) / step) + 1 }, (_, i) => first + i * step);
    }
    const { __name__: _, ...labels } = metric;
    return createDataFrame({
      refId: result.ref_id,
      fields: [
        { name: 'Time', type: FieldType.time, values: times, config: {} },
        {
          name: 'Value',
          type: FieldType.number,
          labels,
          values: times.map((time) => found.get(time) ?? null),
          config: { displayNameFromDS: legend(result, metric) },
        },
      ],
    });
  });
}

// One row for each series and time, a column for each label.
function tableFrame(result: Result, several: boolean): DataFrame {
  const rows = result.series.flatMap(({ metric, values, value }) =>
    (values ?? [value!]).map(([at, text]) => ({ metric, time: Math.round(at * 1000), value: number(text) }))
  );
  const labels = [...new Set(result.series.flatMap(({ metric }) => Object.keys(metric)))].sort();
  return createDataFrame({
    refId: result.ref_id,
    fields: [
      { name: 'Time', type: FieldType.time, values: rows.map((row) => row.time), config: {} },
      ...labels.map((label) => ({
        name: label,
        type: FieldType.string,
        values: rows.map((row) => row.metric[label] ?? ''),
        config: { filterable: true },
      })),
      {
        name: several ? `Value #${result.ref_id}` : 'Value',
        type: FieldType.number,
        values: rows.map((row) => row.value),
        config: {},
      },
    ],
  });
}

export function framesOf(results: Result[]): DataFrame[] {
  const tables = results.filter((result) => result.table).length;
  return results.flatMap((result) => (result.table ? [tableFrame(result, tables > 1)] : graphFrames(result)));
}

// The registry that Grafana's app builds from its editors and the panel's plugin, of the properties that this panel has.
export function registryFor(source: FieldConfigSource, type: string): Registry<any> {
  const defaults: any = source.defaults;
  const silent = { ...defaults.custom };
  defaults.custom = { ...CUSTOM_DEFAULTS[type], ...silent };
  defaults.color ??= { mode: COLOR_DEFAULTS[type] ?? 'thresholds' };
  defaults.thresholds ??= THRESHOLDS;
  defaults.thresholds = {
    ...defaults.thresholds,
    // JSON has no -Infinity: Grafana's own step of the base colour is null there
    steps: defaults.thresholds.steps.map((step: any) => ({ ...step, value: step.value ?? -Infinity })),
  };
  const named = source.overrides.flatMap((rule) => rule.properties.map((property) => property.id));
  const custom = new Set([
    ...Object.keys(defaults.custom),
    ...named.filter((id) => id.startsWith('custom.')).map((id) => id.slice('custom.'.length)),
  ]);
  const item = (id: string, path: string, isCustom: boolean) => ({
    id, path, isCustom, name: id, process: identityOverrideProcessor, shouldApply: () => true, override: () => null,
  });
  return new Registry(() => [
    ...STANDARD.map((id) => item(id, id, false)),
    ...[...custom].map((path) => item(`custom.${path}`, path, true)),
  ]);
}

// A text with the variables that Grafana gives a field, such as ${__field.labels.arm}.
export function scoped(text: string, vars?: any): string {
  return text.replace(/\$\{(__[\w.]+)\}|\$(__\w+)/g, (whole, a, b) => {
    const found = (a ?? b).split('.').reduce((at: any, key: string) => at?.[key]?.value ?? at?.[key], vars);
    return found === undefined ? whole : String(found);
  });
}
