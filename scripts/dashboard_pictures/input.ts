// What take.py puts into the page: a dashboard, laid out, with Prometheus' answers.
import { Result } from './frames';

export type Mark = { time_ms: number; text: string; color: string };
export type Placed = { panel: any; box: { left: number; top: number; width: number; height: number }; results: Result[] };
type Page = {
  title: string;
  links: string[];
  variables: { label: string; shown: string }[];
  from_ms: number;
  to_ms: number;
  range_text: string;
  width: number;
  height: number;
  dark: boolean;
  marks: Mark[];
  panels: Placed[];
};

export const page: Page = (window as any).specloadPage;
