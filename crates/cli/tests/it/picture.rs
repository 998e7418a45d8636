//! The picture that the output of a command leaves on a terminal: enough of one for cursor
//! movements, erasing and text.

/// The size of the terminal; larger than what tests use.
const WIDTH: usize = 300;
const HEIGHT: usize = 100;

/// Returns the lines of the picture, without trailing spaces and empty lines at the end.
pub(crate) fn of(output: &str) -> String {
    let mut screen = Screen { cells: vec![vec![' '; WIDTH]; HEIGHT], x: 0, y: 0 };
    let mut letters = output.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => screen.escape(&mut letters),
            '\r' => screen.x = 0,
            '\n' => screen.y = (screen.y + 1).min(HEIGHT - 1),
            letter => screen.put(letter),
        }
    }
    let lines = screen.cells.iter().map(|it| it.iter().collect::<String>().trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

struct Screen {
    cells: Vec<Vec<char>>,
    x: usize,
    y: usize,
}

impl Screen {
    fn put(&mut self, letter: char) {
        self.cells[self.y][self.x.min(WIDTH - 1)] = letter;
        self.x += 1;
    }

    /// Reads an escape sequence after its first character.
    fn escape(&mut self, letters: &mut impl Iterator<Item = char>) {
        if letters.next() != Some('[') {
            return;
        }
        let mut parameters = String::new();
        for letter in letters {
            if !('\u{40}'..='\u{7e}').contains(&letter) {
                parameters.push(letter);
                continue;
            }
            let numbers: Vec<usize> = parameters.split(';').map(|it| it.parse().unwrap_or(0)).collect();
            let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
            match letter {
                'H' => {
                    let at = |it: usize, size: usize| it.max(1).min(size) - 1;
                    (self.y, self.x) = (at(number(0), HEIGHT), at(number(1), WIDTH));
                }
                'J' if number(0) == 2 => self.cells.iter_mut().for_each(|it| it.fill(' ')),
                'J' => {
                    self.cells[self.y][self.x..].fill(' ');
                    self.cells[self.y + 1..].iter_mut().for_each(|it| it.fill(' '));
                }
                'K' => self.cells[self.y][self.x..].fill(' '),
                // Leaving the alternate screen shows what was there before it.
                'l' if parameters == "?1049" => self.cells.iter_mut().for_each(|it| it.fill(' ')),
                _ => {}
            }
            return;
        }
    }
}

#[test]
fn cursor_movements_and_erasing_make_the_picture() {
    for (output, expected) in [
        ("a\r\nb", "a\nb"),
        ("\u{1b}[2;3Hx\u{1b}[1;1H\u{1b}[1mab\u{1b}[0m", "ab\n  x"),
        ("abc\u{1b}[1;2H\u{1b}[K", "a"),
        ("abc\u{1b}[2J\u{1b}[1;1Hx", "x"),
        ("\u{1b}[?1049habc\u{1b}[?1049l", ""),
    ] {
        assert_eq!(of(output), expected, "{output:?}");
    }
}
