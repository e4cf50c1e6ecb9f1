select 'a'
'b;c';
select E'a'
'b\';c';
select 7;