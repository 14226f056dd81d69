# Regular expressions, hashes, sorting, formatting. Argument: a text file.
use strict;
use warnings;
my (%count, %pairs, $sum, $numbers);
open(my $in, '<', $ARGV[0]) or die "$ARGV[0]: $!";
while (my $line = <$in>) {
    $sum += $1 if $line =~ /(\d+)\.$/;
    $numbers++ while $line =~ /\b(?:ba|re)(\w*?)(?=ti|lu)/g;
    my @words = map { lc } $line =~ /([a-z]+)/gi;
    $count{$_}++ for @words;
    $pairs{"$words[$_ - 1] $words[$_]"}++ for 1 .. $#words;
    (my $swapped = $line) =~ s/(\w+) (\w+)/$2 $1/g;
    $sum += length($swapped) + ($line =~ tr/aeiou//);
}
print "$sum $numbers ", scalar(keys %count), " ", scalar(keys %pairs), "\n";
my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
printf "%-20s %7d\n", $_, $count{$_} for @top[0 .. 19];
@top = sort { $pairs{$b} <=> $pairs{$a} || $a cmp $b } keys %pairs;
print join("; ", @top[0 .. 9]), "\n";
